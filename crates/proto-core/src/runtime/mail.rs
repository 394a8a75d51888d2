//! What other threads ask of a controller: cancels, rechecks, listings. Rare, so a locked vector of closures.

use std::sync::PoisonError;

use super::core::Core;
use super::send;
use crate::ctx::attention;

/// Runs on the controller's own stack.
pub(crate) type Mail = Box<dyn FnOnce(&'static Core) + Send>;

/// Has `mail` run by the controller of `core`, soon: at its next pass, or when the VP it runs next goes through a door.
pub(crate) fn post(core: &Core, mail: Mail) {
    core.mail.lock().unwrap_or_else(PoisonError::into_inner).push(mail);
    core.ctx.raise(attention::MAIL);
    send::wake(core);
}

/// Runs what has come. On the controller.
#[cold]
pub(crate) fn serve(core: &'static Core) {
    core.ctx.lower(attention::MAIL);
    let mails = std::mem::take(&mut *core.mail.lock().unwrap_or_else(PoisonError::into_inner));
    for mail in mails {
        mail(core);
    }
}
