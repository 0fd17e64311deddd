//! The ramdisks that the operator's settings name, by format and architecture.

use std::collections::BTreeMap;

use metal3_api::metal3::RamdiskFormat;

use crate::ironic_config::IronicArgs;

/// The configured ramdisks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Images {
    iso: Image,
    kernel: Image,
    ramdisk: Image,
}

/// One image, for any architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Image {
    /// For all other architectures. Without it the image does not exist.
    base: String,
    /// By architecture in capitals, first those that count more.
    by_architecture: [BTreeMap<String, String>; 2],
}

/// Where a ramdisk is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Urls {
    /// The image itself.
    pub image: String,
    /// The kernel of an initial ramdisk; empty for an ISO.
    pub kernel: String,
}

impl Images {
    /// From settings and the environment, whose variables `DEPLOY_*_URL_<ARCH>` cannot be listed as flags. None where no
    /// format is complete: then another program builds ramdisks.
    pub fn new(args: &IronicArgs, environment: impl Iterator<Item = (String, String)>) -> Option<Self> {
        let environment: Vec<_> = environment.collect();
        let image = |name: &str, base: &Option<String>, by_architecture: &str| Image {
            base: base.clone().unwrap_or_default(),
            by_architecture: [variables(name, &environment), list(by_architecture)],
        };
        let images = Self {
            iso: image("DEPLOY_ISO_URL_", &args.deploy_iso_url, &args.deploy_iso_by_arch),
            kernel: image(
                "DEPLOY_KERNEL_URL_",
                &args.deploy_kernel_url,
                &args.deploy_kernel_by_arch,
            ),
            ramdisk: image(
                "DEPLOY_RAMDISK_URL_",
                &args.deploy_ramdisk_url,
                &args.deploy_ramdisk_by_arch,
            ),
        };
        let formats = [RamdiskFormat::Iso, RamdiskFormat::Initrd];
        formats.iter().any(|format| images.supports(format)).then_some(images)
    }

    /// Whether there is such a ramdisk. An initial ramdisk needs a kernel.
    pub fn supports(&self, format: &RamdiskFormat) -> bool {
        match format {
            RamdiskFormat::Iso => !self.iso.base.is_empty(),
            RamdiskFormat::Initrd => !self.ramdisk.base.is_empty() && !self.kernel.base.is_empty(),
            RamdiskFormat::Other(_) => false,
        }
    }

    /// The ramdisk of a supported format for an architecture.
    pub fn urls(&self, format: &RamdiskFormat, architecture: &str) -> Urls {
        match format {
            RamdiskFormat::Iso => Urls {
                image: self.iso.of(architecture),
                kernel: String::new(),
            },
            RamdiskFormat::Initrd => Urls {
                image: self.ramdisk.of(architecture),
                kernel: self.kernel.of(architecture),
            },
            RamdiskFormat::Other(_) => Urls::default(),
        }
    }
}

impl Image {
    fn of(&self, architecture: &str) -> String {
        let architecture = architecture.to_uppercase();
        let mut named = self.by_architecture.iter().filter_map(|urls| urls.get(&architecture));
        named.next().unwrap_or(&self.base).clone()
    }
}

fn variables(name: &str, environment: &[(String, String)]) -> BTreeMap<String, String> {
    let known = environment.iter().filter(|(_, value)| !value.is_empty());
    let architecture = |(key, value): &(String, String)| Some((key.strip_prefix(name)?.to_owned(), value.clone()));
    known
        .filter_map(architecture)
        .filter(|(key, _)| !key.is_empty())
        .collect()
}

/// `arch:url,arch:url`. The first of an architecture counts; an entry without a colon, or without a URL, is none.
fn list(text: &str) -> BTreeMap<String, String> {
    let entries = text.split(',').filter_map(|entry| entry.split_once(':'));
    let mut urls = BTreeMap::new();
    for (architecture, url) in entries.filter(|(architecture, url)| !architecture.is_empty() && !url.is_empty()) {
        urls.entry(architecture.to_uppercase())
            .or_insert_with(|| url.to_owned());
    }
    urls
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        ironic: IronicArgs,
    }

    /// From flags, and variables of the environment.
    pub(crate) fn images(flags: &[&str], environment: &[(&str, &str)]) -> Option<Images> {
        let flags = Flags::parse_from(["test"].iter().chain(flags));
        let owned = environment
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Images::new(&flags.ironic, owned)
    }

    #[rstest]
    #[case::none(&[], false, false)]
    #[case::iso(&["--deploy-iso-url=http://a/i"], true, false)]
    #[case::kernel_alone(&["--deploy-kernel-url=http://a/k"], false, false)]
    #[case::initrd(&["--deploy-kernel-url=http://a/k", "--deploy-ramdisk-url=http://a/r"], false, true)]
    // Upstream asks for the base variable as well.
    #[case::by_architecture_alone(&["--deploy-iso-by-arch=x86_64:http://a/i"], false, false)]
    fn formats(#[case] flags: &[&str], #[case] iso: bool, #[case] initrd: bool) {
        let found = images(flags, &[]);
        assert_eq!(found.is_some(), iso || initrd);
        let supports = |format| found.as_ref().is_some_and(|images| images.supports(&format));
        assert_eq!(
            (supports(RamdiskFormat::Iso), supports(RamdiskFormat::Initrd)),
            (iso, initrd)
        );
    }

    #[rstest]
    #[case("x86_64", "http://a/base")]
    #[case("aarch64", "http://a/variable")]
    #[case("AArch64", "http://a/variable")]
    #[case("ppc64le", "http://a/list:8080/p")]
    #[case("riscv64", "http://a/base")]
    #[case("", "http://a/base")]
    fn an_architecture_has_its_own_image(#[case] architecture: &str, #[case] expected: &str) {
        let by_arch = "aarch64:http://a/list,PPC64LE:http://a/list:8080/p,ppc64le:http://a/second,riscv64,s390x:";
        let flags = [
            "--deploy-iso-url=http://a/base",
            &format!("--deploy-iso-by-arch={by_arch}"),
        ];
        let environment = [
            ("DEPLOY_ISO_URL_AARCH64", "http://a/variable"),
            ("DEPLOY_ISO_URL_RISCV64", ""),
        ];
        let images = images(&flags, &environment).unwrap();
        let urls = images.urls(&RamdiskFormat::Iso, architecture);
        assert_eq!((urls.image.as_str(), urls.kernel.as_str()), (expected, ""));
    }
}
