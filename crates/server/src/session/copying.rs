//! Statements that stream a tenant: BACKUP, RESTORE, CREATE TENANT … FROM TEMPLATE.

use base::SqlResult;
use pgproto::backend;
use pgproto::frontend::Frontend;
use sql::session::{CopyShape, Format, HostOutcome, HostStatement, Reply};

use super::connection::{Connection, End};
use super::drive::Failed;
use super::watch::StatementPatience;
use crate::tenants::restoring::Restoring;
use crate::tenants::{copying, restoring, statements};

impl Connection {
    /// Carries out a statement of the administrator and tells the session of its outcome.
    pub(super) async fn host_statement(
        &mut self,
        statement: HostStatement,
        patience: &StatementPatience,
    ) -> Result<(), Failed> {
        statements::authorize(&self.control)?;
        let outcome = match statement {
            HostStatement::BackupTenant { name } => {
                self.backup(&name, patience).await?;
                Ok(HostOutcome::Done { tag: "BACKUP TENANT", notices: Vec::new() })
            }
            HostStatement::MoveTenant { name, worker } => {
                let shared = self.shared.clone();
                // Raced: a long change of the tenant may keep it where it is for long.
                self.race_with_client(patience, statements::place(&shared, &name, worker)).await??;
                Ok(HostOutcome::Done { tag: "ALTER TENANT", notices: Vec::new() })
            }
            HostStatement::RestoreTenant { name, options } => {
                self.restoring = Some(restoring::from_client(&self.shared, name, options)?);
                Ok(HostOutcome::CopyIn("RESTORE TENANT"))
            }
            copied @ HostStatement::CreateTenant { template: Some(_), .. } => {
                let copy = statements::template::begin(&self.shared, copied)?;
                let notices = match copy.making {
                    Ok(making) => {
                        self.copy_template(making, patience).await?;
                        statements::warnings_of_new(&self.shared, &copy.name)
                    }
                    Err(skipped) => vec![skipped],
                };
                Ok(HostOutcome::Done { tag: "CREATE TENANT", notices })
            }
            evict @ HostStatement::Evict { .. } => {
                let (shared, control) = (self.shared.clone(), self.control.clone());
                // Raced: what is to be written first may wait for its tenant's limits for long.
                self.race_with_client(patience, statements::run(&shared, &control, evict)).await?
            }
            // Not raced: once begun, making or dropping a tenant goes on to its end.
            other => statements::run(&self.shared, &self.control, other).await,
        };
        self.session.host_done(outcome);
        Ok(())
    }

    /// Sends a tenant's backup as the data of a COPY.
    async fn backup(&mut self, name: &str, patience: &StatementPatience) -> Result<(), Failed> {
        let mut pieces = copying::begin(&self.shared, name)?;
        self.flush().await?;
        let mut begun = false;
        while let Some(piece) = self.race_with_client(patience, pieces.next()).await?? {
            if !std::mem::replace(&mut begun, true) {
                self.output.copy_out(CopyShape { format: Format::Binary, columns: 0 });
            }
            backend::copy_data(self.output.raw(), |out| out.extend_from_slice(&piece));
            self.send_on(patience).await?;
        }
        assert!(begun, "an image has at least its superblocks");
        self.output.copy_done();
        Ok(())
    }

    /// Sends the output of a statement that goes on. Interrupted, the send goes on by itself, and what is sent next follows it.
    async fn send_on(&mut self, patience: &StatementPatience) -> Result<(), Failed> {
        let out = self.output.take();
        let (sent, out) = self.control.race(patience, self.stream.send(out)).await?;
        sent.map_err(|_| End::Gone)?;
        self.output.reuse(out);
        self.give_way().await?;
        // A client that always takes what is there would never be found waiting.
        Ok(self.check(patience)?)
    }

    async fn copy_template(
        &mut self,
        mut making: Restoring,
        patience: &StatementPatience,
    ) -> Result<(), Failed> {
        match self.race_with_client(patience, making.outcome()).await {
            Ok(made) => Ok(made?),
            // Made before it could be interrupted, the tenant is there.
            Err(Failed::Interrupted(interruption)) => {
                making.give_up().await.map_err(|_| Failed::Interrupted(interruption))
            }
            Err(other) => Err(other),
        }
    }

    /// What a message of the client is to a RESTORE that waits for data; `None` if it is nothing of it. `Some(true)`: to be
    /// taken up by [`Connection::restore`].
    pub(super) fn restore_now(&mut self, message: &Frontend<'_>) -> Option<bool> {
        let restoring = self.restoring.as_mut()?;
        match message {
            Frontend::CopyData(data) => Some(restoring.push(data)),
            Frontend::CopyDone | Frontend::CopyFail(_) => Some(true),
            _ => None,
        }
    }

    /// Takes up a message of a RESTORE. The inner error is the statement's, and the session has noted it.
    pub(super) async fn restore(&mut self, message: &Frontend<'_>) -> Result<SqlResult<()>, End> {
        let Some(mut restoring) = self.restoring.take() else { return Ok(Ok(())) };
        if matches!(message, Frontend::CopyFail(_)) {
            // Of what came so far no tenant was made: its end was not told.
            let _ = restoring.give_up().await;
            return Ok(Ok(()));
        }
        let end = matches!(message, Frontend::CopyDone);
        let outcome = match self.control.race(self.patience(), restoring.send(end)).await {
            // Not raced: once it has everything, making a tenant goes on to its end.
            Ok(Ok(())) if end => restoring.outcome().await,
            Ok(Ok(())) => {
                self.restoring = Some(restoring);
                Ok(())
            }
            Ok(Err(error)) => Err(error),
            Err(interruption) => {
                let _ = restoring.give_up().await;
                Err(match interruption.fatal() {
                    Some(fatal) => return Err(End::Fatal(fatal)),
                    None => interruption.canceled(),
                })
            }
        };
        if let Err(error) = &outcome {
            self.fail(error).await?;
        }
        Ok(outcome)
    }

    /// Ends a RESTORE that will get no more data, and waits until nothing is left of its tenant.
    pub(super) async fn give_up_restore(&mut self) {
        if let Some(restoring) = self.restoring.take() {
            let _ = restoring.give_up().await;
        }
    }
}
