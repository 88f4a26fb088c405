//! `make bench`.

use anyhow::Result;
use clap::{Parser, Subcommand};
use flotilla_bench::Situation;

/// The allocator of the fleet's own program, so that decisions cost here what they cost there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures what decisions, objects and members cost; prints a table and writes it as JSON.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: flotilla_bench::Options,
}

#[derive(Subcommand)]
enum Command {
    /// Decides so many times and ends: what is run under valgrind.
    #[command(hide = true)]
    Decide {
        #[arg(value_enum)]
        situation: Situation,
        rounds: u32,
    },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(Command::Decide { situation, rounds }) = arguments.command {
        return situation.run(rounds);
    }
    tokio::runtime::Runtime::new()?.block_on(flotilla_bench::run(arguments.options))
}
