//! What clap does not do with environment variables.

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command, Error};

/// Treats variables that are set to nothing as unset, as a chart or a Secret with an empty value means it.
#[expect(clippy::disallowed_methods, reason = "it only asks whether a variable that clap reads is empty")]
pub fn ignore_empty(command: Command) -> Command {
    let is_empty = |arg: &Arg| {
        let value = arg.get_env().and_then(std::env::var_os);
        value.is_some_and(|value| value.to_str().is_some_and(|text| text.trim().is_empty()))
    };
    command
        .mut_args(|arg| if is_empty(&arg) { arg.env(None::<&'static str>) } else { arg })
        .mut_subcommands(ignore_empty)
}

/// Adds the variable to the flag that an error names: the value may have come from either.
pub fn name_variable(mut error: Error, command: &Command) -> Error {
    if let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg)
        && let Some(variable) = variable_of(flag, command)
    {
        let named = format!("{flag} ({variable})");
        error.insert(ContextKind::InvalidArg, ContextValue::String(named));
    }
    error
}

fn variable_of(flag: &str, command: &Command) -> Option<String> {
    let name = flag.strip_prefix("--")?.split([' ', '[', '=']).next()?;
    let found = command.get_arguments().find(|arg| arg.get_long() == Some(name));
    match found.and_then(Arg::get_env) {
        Some(variable) => Some(variable.to_string_lossy().into_owned()),
        None => command.get_subcommands().find_map(|command| variable_of(flag, command)),
    }
}
