//! A real etcd and kube-apiserver on free loopback ports, started in seconds and gone with the process.
