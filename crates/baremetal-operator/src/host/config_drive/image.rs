//! A config drive as an image. Ironic builds it from JSON, which cannot carry binary user data such as a gzip archive:
//! in that case it is built here, in the same way as Ironic does.

use std::io::{Cursor, Write};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use hadris_iso::read::PathSeparator;
use hadris_iso::write::options::{CreationFeatures, IsoFormatOptions};
use hadris_iso::write::{File, InputFiles, IsoImageWriter};
use serde_json::{Map, Value};

/// The label by which cloud-init and Ignition find the drive.
const LABEL: &str = "config-2";
/// The folders that Ironic's own drives have, with the same files.
const VERSIONS: [&str; 2] = ["2012-08-10", "latest"];
const SECTOR_BYTES: usize = 2048;

/// An ISO 9660 image with these files, compressed and in base64, as Ironic takes it.
pub(super) fn build(drive: &Map<String, Value>, user_data: &[u8]) -> Result<Value, String> {
    let mut files = vec![file("user_data", user_data.to_vec())];
    for part in ["meta_data", "network_data"] {
        if let Some(value) = drive.get(part) {
            files.push(file(&format!("{part}.json"), value.to_string().into_bytes()));
        }
    }
    let versions = VERSIONS.map(|version| folder(version, files.clone())).to_vec();
    let tree = InputFiles {
        path_separator: PathSeparator::ForwardSlash,
        files: vec![folder("openstack", versions)],
    };
    let options = IsoFormatOptions {
        volume_name: LABEL.to_owned(),
        system_id: None,
        volume_set_id: None,
        publisher_id: None,
        preparer_id: None,
        application_id: None,
        sector_size: SECTOR_BYTES,
        features: CreationFeatures::extensions(),
        path_separator: PathSeparator::ForwardSlash,
        strict_charset: false,
    };
    let mut image = Cursor::new(Vec::new());
    IsoImageWriter::create(&mut image, tree, options).map_err(|error| failed(&error))?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(image.get_ref()).map_err(|error| failed(&error))?;
    let packed = packed.finish().map_err(|error| failed(&error))?;
    Ok(STANDARD.encode(packed).into())
}

fn failed(error: &dyn std::fmt::Display) -> String {
    format!("the config drive cannot be made: {error}")
}

fn file(name: &str, contents: Vec<u8>) -> File {
    let name = Arc::new(name.to_owned());
    File::File { name, contents }
}

fn folder(name: &str, children: Vec<File>) -> File {
    let name = Arc::new(name.to_owned());
    File::Directory { name, children }
}
