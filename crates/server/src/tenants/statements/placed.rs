//! ALTER TENANT … SET WORKER.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState, WorkerId};

use super::existing;
use crate::administration::Administered;
use crate::shared::Shared;
use crate::tenants::Subject;

/// Makes `worker` the home of the tenant `name`, where it stays until reservations fit nowhere else; `None`: it may be moved for load again. Waits for the
/// move. May be dropped: then the tenant is where it was, or has moved, and may be moved for load if it might before.
///
/// # Errors
/// 3D000, 42501 for the server's own, 22023 for a worker that there is not, 55006 while another statement changes the tenant.
pub(crate) async fn place(shared: &Arc<Shared>, name: &str, worker: Option<i64>) -> SqlResult<()> {
    let _claim = shared.claims.change(Subject::Tenant(name.to_owned()))?;
    let home = existing(shared, name)?.home.clone();
    let Some(number) = worker else {
        home.set_kept(false);
        shared.placement.ask();
        shared.administered.note(Administered::Tenants);
        return Ok(());
    };
    let last = shared.workers.len() - 1;
    let found = u16::try_from(number).ok().filter(|number| usize::from(*number) <= last);
    let to = found.ok_or_else(|| {
        let message = format!("worker {number} does not exist");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            .with_detail(format!("The workers of this server are 0 to {last}."))
    })?;
    // Before it moves, so that no pass takes it elsewhere.
    let keeping = home.keep();
    home.move_to(shared, WorkerId(to), None).await;
    keeping.arrived();
    shared.placement.ask();
    shared.administered.note(Administered::Tenants);
    Ok(())
}
