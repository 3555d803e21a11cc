//! The operating system's stream sockets, TCP and local. Descriptors stay in blocking mode, since a ring answers EAGAIN instead of
//! waiting on a non-blocking one; calls made here say MSG_DONTWAIT instead.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::net::{KeepAlive, LOCAL_PEER, Listener, ListenerOps, Network, Socket, SocketOps};

pub(super) struct SystemNetwork;

impl Network for SystemNetwork {
    fn listen(&self, addr: SocketAddr) -> io::Result<Listener> {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        Ok(Listener::new(Arc::new(SystemListener(listener))))
    }

    fn listen_local(&self, path: &Path) -> io::Result<Listener> {
        let bound = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_behind(path) => {
                std::fs::remove_file(path)?;
                UnixListener::bind(path)
            }
            other => other,
        };
        let listener = LocalListener { listener: bound?, file: identity(path)?, path: path.to_owned() };
        listener.listener.set_nonblocking(true)?;
        // Who may connect is decided by password, not by the file.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))?;
        Ok(Listener::new(Arc::new(listener)))
    }

    fn connect(&self, addr: SocketAddr) -> io::Result<Socket> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        Ok(Socket::new(Arc::new(SystemSocket::Tcp(stream))))
    }
}

/// Whether the file is a socket that nobody listens behind any more, left of a server that was killed. Any other answer
/// than a refusal may be somebody's, and what is no socket is none of ours.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).err().is_some_and(refused)
}

/// Device and number of the file that a path names.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

struct SystemListener(TcpListener);

impl ListenerOps for SystemListener {
    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.0.as_raw_fd())
    }
    fn try_accept(&self) -> io::Result<(Arc<dyn SocketOps>, SocketAddr)> {
        let (stream, peer) = self.0.accept()?;
        stream.set_nonblocking(false)?;
        Ok((Arc::new(SystemSocket::Tcp(stream)), peer))
    }
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
    fn close(&self) {
        // SAFETY: shutting down an open descriptor; on a listener it makes a waiting poll report.
        unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

struct LocalListener {
    listener: UnixListener,
    path: PathBuf,
    /// Its [`identity`] when it was made.
    file: (u64, u64),
}

impl ListenerOps for LocalListener {
    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.listener.as_raw_fd())
    }
    fn try_accept(&self) -> io::Result<(Arc<dyn SocketOps>, SocketAddr)> {
        let (stream, _) = self.listener.accept()?;
        stream.set_nonblocking(false)?;
        Ok((Arc::new(SystemSocket::Local(stream)), LOCAL_PEER))
    }
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(LOCAL_PEER)
    }
    fn close(&self) {
        // SAFETY: shutting down an open descriptor; on a listener it makes a waiting poll report.
        unsafe { libc::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR) };
        // Nobody is to find a door that leads nowhere; one that somebody put in its place is theirs.
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

enum SystemSocket {
    Tcp(TcpStream),
    Local(UnixStream),
}

impl SystemSocket {
    fn fd(&self) -> RawFd {
        match self {
            SystemSocket::Tcp(stream) => stream.as_raw_fd(),
            SystemSocket::Local(stream) => stream.as_raw_fd(),
        }
    }

    /// Sets an option of the socket that is a number.
    fn set_option(&self, level: libc::c_int, option: libc::c_int, value: u16) -> io::Result<()> {
        let value = libc::c_int::from(value);
        let len = libc::socklen_t::try_from(size_of_val(&value)).expect("a number is short");
        // SAFETY: pointer and length of a live integer, which is what these options take.
        let result = unsafe { libc::setsockopt(self.fd(), level, option, (&raw const value).cast(), len) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

fn transferred(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl SocketOps for SystemSocket {
    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.fd())
    }
    fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        // SAFETY: pointer and length of a live, writable slice.
        transferred(unsafe { libc::recv(self.fd(), buf.as_mut_ptr().cast(), buf.len(), libc::MSG_DONTWAIT) })
    }
    fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: pointer and length of a live, readable slice.
        transferred(unsafe { libc::send(self.fd(), buf.as_ptr().cast(), buf.len(), flags) })
    }
    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            SystemSocket::Tcp(stream) => stream.shutdown(how),
            SystemSocket::Local(stream) => stream.shutdown(how),
        }
    }
    fn set_nodelay(&self, on: bool) -> io::Result<()> {
        match self {
            SystemSocket::Tcp(stream) => stream.set_nodelay(on),
            // It delays nothing.
            SystemSocket::Local(_) => Ok(()),
        }
    }
    fn set_keepalive(&self, keep: KeepAlive) -> io::Result<()> {
        // The end of a local peer is known at once.
        if matches!(self, SystemSocket::Local(_)) {
            return Ok(());
        }
        self.set_option(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, keep.idle_s)?;
        self.set_option(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, keep.interval_s)?;
        self.set_option(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, keep.probes)?;
        self.set_option(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)
    }
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            SystemSocket::Tcp(stream) => stream.peer_addr(),
            SystemSocket::Local(_) => Ok(LOCAL_PEER),
        }
    }
    fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            SystemSocket::Tcp(stream) => stream.local_addr(),
            SystemSocket::Local(_) => Ok(LOCAL_PEER),
        }
    }
}
