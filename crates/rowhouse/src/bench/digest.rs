//! `rowhouse bench tpch --digest`: the answers of the 22 queries, in a form in which two servers can be compared.

use serde::Serialize;
use workloads::tpch::answer;
use workloads::{Error, explain};

use super::which::TpchArgs;

/// What came of a query.
#[derive(Serialize)]
struct Line {
    database: String,
    query: usize,
    rows: usize,
    digest: String,
    elapsed_ms: f64,
    /// What the server said instead of an answer.
    error: Option<String>,
}

/// Answers each query once in each database. One that fails is told, and the others are still asked.
pub(super) async fn run(args: &TpchArgs) -> Result<(), Error> {
    let workload = args.workload()?;
    let target = args.common.target()?;
    super::prepare(&args.common, &target, &workload).await?;
    if let Some(folder) = &args.rows {
        std::fs::create_dir_all(folder)?;
    }
    let mut lines = Vec::new();
    for (tenant, database) in target.databases.iter().enumerate() {
        let client = target.connect(tenant).await?;
        for query in workload.queries.numbers() {
            let mut line = Line {
                database: database.clone(),
                query,
                rows: 0,
                digest: String::new(),
                elapsed_ms: 0.0,
                error: None,
            };
            match answer(&client, workload.scale, query).await {
                Ok(answer) => {
                    line.rows = answer.rows.len();
                    line.digest = format!("{:016x}", answer.digest());
                    line.elapsed_ms = answer.elapsed.as_secs_f64() * 1_000.0;
                    if let (Some(folder), 0) = (&args.rows, tenant) {
                        let text: String = answer.rows.iter().map(|row| format!("{row}\n")).collect();
                        std::fs::write(folder.join(format!("q{query}.txt")), text)?;
                    }
                }
                Err(error) => line.error = Some(explain(&error)),
            }
            if !args.common.json {
                let Line { rows, digest, elapsed_ms, .. } = &line;
                match &line.error {
                    None => {
                        println!("{database} Q{query:<3} {rows:>6} rows  {digest}  {elapsed_ms:>10.1} ms")
                    }
                    Some(error) => println!("{database} Q{query:<3} {error}"),
                }
            }
            lines.push(line);
        }
    }
    if args.common.json {
        println!("{}", serde_json::to_string_pretty(&lines)?);
    }
    match lines.iter().filter(|line| line.error.is_some()).count() {
        0 => Ok(()),
        failed => Err(format!("{failed} queries failed").into()),
    }
}
