//! The tests of the lab's Python half, in the environment that it runs in.

use std::process::Command;

use metal3_lab::ironic::environment;

#[test]
fn the_python_half_passes_its_own_tests() {
    let environment = environment::ensure().unwrap();
    let output = Command::new(environment.python())
        .args([
            "-W",
            "error::SyntaxWarning",
            "-m",
            "unittest",
            "discover",
            "-v",
            "-s",
            "tests",
        ])
        .current_dir(environment.sources())
        .env("PYTHONPATH", environment.sources())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stderr);
    println!("{report}");
    assert!(output.status.success() && !report.contains("Ran 0 tests"));
}
