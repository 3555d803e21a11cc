//! The administrator's statements from elsewhere than the wire, run by a session of the administrator's database as the wire's are.

use std::sync::Arc;

use base::{SqlError, SqlResult, TenantId};
use futures::channel::oneshot;
use futures::future::BoxFuture;
use sql::session::{HostOutcome, HostStatement};

use super::internal::{Answered, run};
use super::{catalogue, statements};
use crate::session::Control;
use crate::shared::Shared;

/// Runs `sql` as the administrator. What has begun goes on to its end, also if nobody waits for it any more: making or dropping a tenant is
/// not cut short. After `Ok` what it changed is durable. From any thread.
///
/// # Errors
/// Those of the statement; 0A000 for those that send or take data.
pub(crate) async fn administer(shared: &Arc<Shared>, sql: String) -> SqlResult<Answered> {
    let system = catalogue::system(shared)?;
    let (tell, told) = oneshot::channel();
    let (task_shared, task_home) = (shared.clone(), system.clone());
    let task = async move {
        let carrying = task_shared.clone();
        let carry_out = move |statement: HostStatement| -> BoxFuture<'static, SqlResult<HostOutcome>> {
            let shared = carrying.clone();
            let control = Control::internal(shared.sessions.new_id(), TenantId::SYSTEM);
            Box::pin(async move { statements::run_to_end(&shared, &control, statement).await })
        };
        // Whoever asked may be gone.
        let _ = tell.send(run(&task_shared, &task_home, &sql, &[], None, &carry_out).await);
    };
    system.spawn(task).detach();
    told.await.unwrap_or_else(|_| Err(SqlError::internal("a statement of the administrator did not finish")))
}
