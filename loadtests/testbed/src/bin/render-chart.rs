//! Remakes what is committed of the Helm chart's output: `make generate`.

fn main() -> anyhow::Result<()> {
    flotilla_testbed::chart::generate()
}
