//! The edge to Azure Resource Manager: calls, credentials, errors, long-running operations.
