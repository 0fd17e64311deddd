#![no_main]

metal3_fuzz_targets::target!("templates");
