//! Free loopback ports.
//!
//! They are taken from below the range that the kernel hands out for outgoing connections, so that a server that is
//! restarted on its old port does not find it in use by another connection.

use std::net::TcpListener;

use uuid::Uuid;

const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;
const TRIES: usize = 200;

/// No port of the range could be bound.
#[derive(Debug, thiserror::Error)]
#[error("no free loopback port found in {TRIES} tries")]
pub struct NoneFree;

/// `N` different ports that were free a moment ago.
pub(crate) fn free<const N: usize>() -> Result<[u16; N], NoneFree> {
    let mut held = Vec::with_capacity(N);
    for _ in 0..TRIES {
        if held.len() == N {
            break;
        }
        held.extend(TcpListener::bind(("127.0.0.1", random())));
    }
    let ports: Vec<u16> = held.iter().filter_map(|listener| listener.local_addr().ok()).map(|at| at.port()).collect();
    ports.try_into().map_err(|_| NoneFree)
}

/// Random, so that launchers that start at the same time hardly ever pick the same one.
fn random() -> u16 {
    let [high, low, ..] = *Uuid::new_v4().as_bytes();
    FIRST + u16::from_be_bytes([high, low]) % COUNT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_can_be_bound() {
        let ports = free::<3>().unwrap();
        let held: Vec<_> = ports.iter().map(|port| TcpListener::bind(("127.0.0.1", *port)).unwrap()).collect();
        assert_eq!(held.len(), 3);
    }
}
