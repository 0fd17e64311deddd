//! How much may come out.

/// Output grows with the input, and no faster: a small object must not fill memory, a log or a condition.
pub fn is_bounded(input: &[u8], output: usize) {
    let most = (8 << 10) + 256 * input.len();
    assert!(output <= most, "{output} bytes of {}", input.len());
}
