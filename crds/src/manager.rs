//! Which service manages the objects of a kind: for most it is ARM, for a few a database server or a directory.

use serde::{Deserialize, Serialize};

/// What a kind's objects are resources of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Manager {
    /// Azure Resource Manager: the kind has an ARM type.
    #[default]
    Arm,
    /// A user in a `MySQL` server.
    MySql,
    /// A role in a `PostgreSQL` server.
    PostgreSql,
    /// A user in a database of Azure SQL.
    AzureSql,
    /// An object of Microsoft Entra, kept by Microsoft Graph.
    Entra,
}

impl Manager {
    /// The manager of this name, as tables have it.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Arm, Self::MySql, Self::PostgreSql, Self::AzureSql, Self::Entra].into_iter().find(|m| m.name() == name)
    }

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arm => "arm",
            Self::MySql => "mysql",
            Self::PostgreSql => "postgresql",
            Self::AzureSql => "azuresql",
            Self::Entra => "entra",
        }
    }

    /// What people call it.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Arm => "Azure Resource Manager",
            Self::MySql => "a MySQL server",
            Self::PostgreSql => "a PostgreSQL server",
            Self::AzureSql => "an Azure SQL database",
            Self::Entra => "Microsoft Entra",
        }
    }

    /// Whether it is ARM.
    pub fn is_arm(&self) -> bool {
        *self == Self::Arm
    }

    /// The group and kind of the owner of its objects, where ARM types don't say it.
    pub const fn owner(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Arm | Self::Entra => None,
            Self::MySql => Some(("dbformysql.azure.com", "FlexibleServer")),
            Self::PostgreSql => Some(("dbforpostgresql.azure.com", "FlexibleServer")),
            Self::AzureSql => Some(("sql.azure.com", "ServersDatabase")),
        }
    }

    /// Whether the owner can also be named by its ARM id; otherwise it is an object of the same namespace.
    pub const fn owner_by_id(self) -> bool {
        matches!(self, Self::Arm | Self::AzureSql)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for manager in [Manager::Arm, Manager::MySql, Manager::PostgreSql, Manager::AzureSql, Manager::Entra] {
            assert_eq!(Manager::parse(manager.name()), Some(manager));
            assert_eq!(serde_json::to_value(manager).unwrap(), manager.name());
        }
        assert_eq!(Manager::parse("none"), None);
    }
}
