//! A server's `/metrics`.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Result;

/// How long a server has to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// Every series of `/metrics` at one moment, by `name{labels}`.
#[derive(Clone, Debug, Default)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Asks the server at `address` (`127.0.0.1:8433`).
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn fetch(address: &str) -> Result<Metrics> {
        let answer = tokio::time::timeout(ANSWER_WAIT, get(address)).await;
        let text = answer.map_err(|_| format!("{address} does not answer"))??;
        Ok(Metrics::parse(&text))
    }

    fn parse(text: &str) -> Metrics {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| {
            let (name, value) = line.trim_end().rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Metrics(pairs.collect())
    }

    /// A tenant's counter or gauge `rowhouse_tenant_WHAT`; 0 where the server has no such tenant.
    pub fn of(&self, tenant: &str, what: &str) -> f64 {
        let name = format!("rowhouse_tenant_{what}{{tenant=\"{tenant}\"}}");
        self.0.get(&name).copied().unwrap_or(0.0)
    }

    /// For how many seconds a tenant's tasks waited for something (`runnable`: for their turns), summed over them.
    pub fn waited(&self, tenant: &str, what: &str) -> f64 {
        let name = format!("rowhouse_tenant_wait_seconds_total{{tenant=\"{tenant}\",wait=\"{what}\"}}");
        self.0.get(&name).copied().unwrap_or(0.0)
    }

    /// The sum over all tenants.
    pub fn sum(&self, what: &str) -> f64 {
        let name = format!("rowhouse_tenant_{what}{{");
        self.0.iter().filter(|(series, _)| series.starts_with(&name)).map(|(_, value)| value).sum()
    }
}

async fn get(address: &str) -> Result<String> {
    let mut socket = TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await?;
    let answer = String::from_utf8(answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(body.to_owned()),
        _ => Err(format!("{address}/metrics answered {}", answer.lines().next().unwrap_or("nothing")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_found_by_tenant_and_summed() {
        let text = "# HELP x\nrowhouse_tenant_io_total{tenant=\"t1\"} 60\nrowhouse_tenant_io_total{tenant=\"t2\"} 2.5\n\
                    rowhouse_tenant_io_bytes_total{tenant=\"t1\"} 9\nrowhouse_sessions 3\n\
                    rowhouse_tenant_wait_seconds_total{tenant=\"t1\",wait=\"log flush\"} 1.5\n";
        let metrics = Metrics::parse(text);
        assert_eq!((metrics.of("t1", "io_total"), metrics.of("t2", "io_total")), (60.0, 2.5));
        assert_eq!((metrics.of("t3", "io_total"), metrics.sum("io_total")), (0.0, 62.5));
        assert_eq!((metrics.waited("t1", "log flush"), metrics.waited("t1", "runnable")), (1.5, 0.0));
    }
}
