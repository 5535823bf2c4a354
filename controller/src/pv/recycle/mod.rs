//! Scrubbing a released volume with policy Recycle: a pod mounts it and deletes everything in it; then the volume is
//! untied from its claim and offered again.

mod operation;
mod recipe;
mod runner;

pub use self::recipe::{NAME_PREFIX, PodRecipe, RecipeError, standard_pod};
pub use self::runner::PodRunner;
