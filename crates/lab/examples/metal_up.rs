//! Starts an emulated server with its Ironic, and waits until it is interrupted.
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    metal3_lab::metal::probe()?;
    let start = std::time::Instant::now();
    let metal = metal3_lab::metal::Metal::start(std::time::Duration::from_secs(900)).await?;
    println!("up after {:?} in {}", start.elapsed(), metal.folder().display());
    println!(
        "{:?} {} {:?}",
        metal.image("disk.raw")?,
        metal.bmc_address(),
        metal.virsh("domstate")
    );
    std::future::pending::<()>().await;
    Ok(())
}
