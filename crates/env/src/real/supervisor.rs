//! What is told to whoever started this process and waits for it: systemd's protocol of `sd_notify(3)`, a datagram to a local socket.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Where the supervisor listens, if there is one that does.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// Tells the supervisor that the start is over: for systemd a unit of `Type=notify` is active from then on. `Ok(false)` without one that listens.
///
/// # Errors
/// The socket that it named is not there, or nothing listens on it.
pub fn tell_supervisor_ready() -> io::Result<bool> {
    std::env::var_os(SOCKET_VARIABLE).map_or(Ok(false), |socket| tell(&socket, b"READY=1").map(|()| true))
}

/// Sends to a path, or to an abstract name, which begins with `@` instead of a zero.
fn tell(socket: &OsString, message: &[u8]) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let sent = UnixDatagram::unbound()?.send_to_addr(message, &address)?;
    assert_eq!(sent, message.len(), "a datagram goes whole");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_hears_at_a_path_and_at_an_abstract_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("rowhouse-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        let sockets = [
            (path.clone().into_os_string(), UnixDatagram::bind(&path).unwrap()),
            (format!("@{name}").into(), UnixDatagram::bind_addr(&abstract_name).unwrap()),
        ];
        for (named, socket) in sockets {
            tell(&named, b"READY=1").unwrap();
            let mut heard = [0; 32];
            let len = socket.recv(&mut heard).unwrap();
            assert_eq!(&heard[..len], b"READY=1");
        }
        assert!(tell(&dir.path().join("nothing").into_os_string(), b"READY=1").is_err());
    }
}
