//! What the targets have in common: what must hold is in `crates/fuzz`, and half of the changes are.

#[doc(hidden)]
pub use {fastrand, libfuzzer_sys, metal3_fuzz};

/// The target of this name.
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        use $crate::libfuzzer_sys;

        libfuzzer_sys::fuzz_target!(|input: &[u8]| $crate::metal3_fuzz::check($name, input));

        libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            $crate::change(data, size, max_size, seed)
        });
    };
}

/// A change that libFuzzer knows, or one of JSON.
pub fn change(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    if seed % 2 == 0 {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    }
    let changed = metal3_fuzz::mutate::change(&data[..size], &mut fastrand::Rng::with_seed(seed.into()));
    let length = changed.len().min(max_size).min(data.len());
    data[..length].copy_from_slice(&changed[..length]);
    length
}
