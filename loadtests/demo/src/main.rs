//! `make demo`.

use anyhow::Result;
use clap::Parser;

/// Shows a fleet at work, from an empty cluster to Azure resources and back, and what it survives.
#[derive(Debug, Parser)]
struct Args {
    /// Leave everything running at the end, until Ctrl-C.
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    flotilla_demo::run(flotilla_demo::Options { keep: args.keep }).await
}
