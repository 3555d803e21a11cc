//! What each message of the client does.

use base::SqlError;
use pgproto::conversation::Via;
use pgproto::frontend::{Bind, Execute, Frontend, Parse, Target};
use smallvec::SmallVec;
use sql::session::Executed;

use super::connection::{Connection, End, Resume};

impl Connection {
    pub(super) async fn handle(&mut self, message: Frontend<'_>) -> Result<(), End> {
        self.control.begin_statement();
        match message {
            Frontend::Query(sql) => self.query(sql).await,
            Frontend::Parse(parse) => self.parse(parse).await,
            Frontend::Bind(bind) => self.bind(&bind).await,
            Frontend::Describe(target) => self.describe(target).await,
            Frontend::Execute(execute) => self.execute(execute).await,
            Frontend::Close(target) => {
                match target {
                    Target::Statement(name) => self.session.close_statement(name, &mut self.output),
                    Target::Portal(name) => self.session.close_portal(name, &mut self.output),
                }
                Ok(())
            }
            Frontend::Sync => self.sync().await,
            Frontend::Flush => {
                self.flush_wanted = true;
                Ok(())
            }
            Frontend::CopyData(data) => self.copy_data(data).await,
            Frontend::CopyDone => self.copy_done().await,
            Frontend::CopyFail(reason) => {
                let session = &mut self.session;
                let error = self.home.with(|home| session.copy_fail(home, reason))?;
                self.end_copy(&error);
                Ok(())
            }
            Frontend::Terminate => Err(End::Gone),
            Frontend::FunctionCall => self.refuse(&SqlError::unsupported("the function call protocol")),
            Frontend::Authentication(_) => self.refuse(&SqlError::new(
                base::SqlState::PROTOCOL_VIOLATION,
                "unexpected authentication message in a running session",
            )),
        }
    }

    fn refuse(&mut self, error: &SqlError) -> Result<(), End> {
        self.fail(error)?;
        self.report(error, Via::Simple);
        Ok(())
    }

    async fn query(&mut self, sql: &str) -> Result<(), End> {
        match self.drive(|session, home, out| session.query(home, sql, out)).await? {
            Ok(Executed::Complete) => self.ready_for_query(),
            Ok(Executed::CopyIn) => {
                self.copying = Some(Resume::Query(sql.to_owned()));
                self.conversation.copy_in_began(Via::Simple);
                self.flush_wanted = true;
            }
            Err(error) => self.report(&error, Via::Simple),
        }
        Ok(())
    }

    /// Tells an error of the extended protocol, if there is one.
    fn extended<T>(&mut self, outcome: Result<T, SqlError>) -> Option<T> {
        outcome.map_err(|error| self.report(&error, Via::Extended)).ok()
    }

    async fn parse(&mut self, parse: Parse<'_>) -> Result<(), End> {
        let oids: SmallVec<[u32; 16]> = parse.parameter_oids.iter().collect();
        let outcome = self
            .drive(|session, home, out| session.parse(home, parse.statement, parse.query, &oids, out))
            .await?;
        self.extended(outcome);
        Ok(())
    }

    async fn bind(&mut self, bind: &Bind<'_>) -> Result<(), End> {
        let parameter_formats: SmallVec<[i16; 16]> =
            bind.parameter_formats.iter().map(|f| f.code()).collect();
        let result_formats: SmallVec<[i16; 16]> = bind.result_formats.iter().map(|f| f.code()).collect();
        let parameters: SmallVec<[Option<&[u8]>; 16]> = bind.parameters.iter().collect();
        let request = sql::session::Bind {
            portal: bind.portal,
            statement: bind.statement,
            parameter_formats: &parameter_formats,
            parameters: &parameters,
            result_formats: &result_formats,
        };
        let outcome = self.drive(|session, home, out| session.bind(home, request, out)).await?;
        self.extended(outcome);
        Ok(())
    }

    async fn describe(&mut self, target: Target<'_>) -> Result<(), End> {
        let outcome = self
            .drive(|session, home, out| match target {
                Target::Statement(name) => session.describe_statement(home, name, out),
                Target::Portal(name) => session.describe_portal(home, name, out),
            })
            .await?;
        self.extended(outcome);
        Ok(())
    }

    async fn execute(&mut self, execute: Execute<'_>) -> Result<(), End> {
        let outcome = self
            .drive(|session, home, out| session.execute(home, execute.portal, execute.rows_max, out))
            .await?;
        if self.extended(outcome) == Some(Executed::CopyIn) {
            self.copying = Some(Resume::Execute);
            self.conversation.copy_in_began(Via::Extended);
            self.flush_wanted = true;
        }
        Ok(())
    }

    async fn sync(&mut self) -> Result<(), End> {
        if let Err(error) = self.drive(|session, home, out| session.sync(home, out)).await? {
            self.output.report(&error);
        }
        self.ready_for_query();
        Ok(())
    }

    async fn copy_data(&mut self, mut data: &[u8]) -> Result<(), End> {
        // The session keeps what it was given: after a pause it goes on with that.
        if let Err(error) =
            self.drive(|session, home, _| session.copy_data(home, std::mem::take(&mut data))).await?
        {
            self.end_copy(&error);
        }
        Ok(())
    }

    async fn copy_done(&mut self) -> Result<(), End> {
        match self.drive(|session, home, out| session.copy_done(home, out)).await? {
            Err(error) => self.end_copy(&error),
            Ok(()) => {
                self.conversation.copy_in_ended();
                if let Some(Resume::Query(sql)) = self.copying.take() {
                    return Box::pin(self.query(&sql)).await;
                }
            }
        }
        Ok(())
    }

    /// A message broke a running COPY FROM STDIN.
    pub(super) async fn copy_failed(&mut self, error: SqlError) -> Result<(), End> {
        self.fail(&error)?;
        self.end_copy(&error);
        Ok(())
    }

    fn end_copy(&mut self, error: &SqlError) {
        self.copying = None;
        if let Some(via) = self.conversation.copy_in_ended() {
            self.report(error, via);
        }
    }
}
