//! File requests done by blocking calls: what the backends without a completion queue for files share.

use std::io;

use crate::disk::File;
use crate::reactor::op::Request;

/// Does a file request, blocking.
pub(crate) fn perform(request: &mut Request) -> io::Result<usize> {
    match request {
        Request::Read { file, buf, offset, done } => {
            while *done < buf.len() {
                match file.read_some_at(&mut buf[*done..], *offset + *done as u64)? {
                    0 => break,
                    n => *done += n,
                }
            }
            Ok(*done)
        }
        Request::Write { file, buf, offset, done, durable } => {
            if *durable {
                file.write_durable_at(buf, *offset)?;
            } else {
                File::new(file.clone()).write_at(buf, *offset)?;
            }
            *done = buf.len();
            Ok(*done)
        }
        Request::Sync { file } => file.sync_data().map(|()| 0),
        _ => unreachable!("only file requests come here"),
    }
}
