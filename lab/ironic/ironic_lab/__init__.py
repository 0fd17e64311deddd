"""The Python half of the lab's Ironic.

Two programs run for every instance of the lab, both told everything by one file, `instance.json`:

* `python -m ironic_lab.machines`: the simulated servers, that is their BMCs, their ramdisk agents and an image server;
* `python -m ironic_lab.launcher`: the packaged Ironic, API and conductor in one process.

Two more are short-lived: `ironic_lab.prepare` fills an instance's folder, `ironic_lab.wipe` empties its database.
The Rust crate `metal3-lab` writes `instance.json`, starts the programs and talks to them.
"""
