//! Reading of bodies, in bounded memory. Nothing is decompressed: reqwest's features for that are off.

use reqwest::Response;

/// Maximum body of a success: a page of a thousand nodes with all fields, or the inventory of one, has a few MiB.
pub(crate) const MOST: usize = 64 << 20;
/// Maximum part of an error that is read.
pub(crate) const MOST_REFUSAL: usize = 64 << 10;

/// The first `most` bytes, and whether they are all.
pub(crate) async fn read(response: &mut Response, most: usize) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if let Some(begin) = chunk.get(..most - body.len()) {
            body.extend_from_slice(begin);
            if begin.len() < chunk.len() {
                return Ok((body, false));
            }
        } else {
            body.extend_from_slice(&chunk);
        }
    }
    Ok((body, true))
}
