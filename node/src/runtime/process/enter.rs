//! The last steps of a process before it executes a container's program, and of a program that joins a container.
//! They run in the single thread of a dedicated process; errors are written to the pipe that delivered the order.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::process::{Signal, set_parent_process_death_signal, setsid};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags};

use super::launch_spec::{Container, Join, Program};
use super::rootfs;

/// The default `PATH`.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

fn at<T>(what: &str, result: rustix::io::Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {}", io::Error::from(error)))
}

/// Moves the process into new namespaces.
#[allow(deprecated, reason = "unsafe for the table of open files alone, which stays as it is here")]
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    rustix::thread::unshare(flags)
}

/// Executes the program of a container; returns only on an error.
pub(super) fn container(plan: &Container) -> Result<Infallible, String> {
    let parent = rustix::process::getppid();
    at("session", setsid())?;
    enter_cgroup(plan.cgroup.as_deref())?;
    let null = null()?;
    at("a mount namespace", unshare(UnshareFlags::NEWNS))?;
    rootfs::enter(plan)?;
    become_program(&plan.program, &null, || {
        // The container must not outlive its supervisor. A change of user resets the signal, so it is set afterwards.
        at("death signal", set_parent_process_death_signal(Some(Signal::KILL)))?;
        if rustix::process::getppid() == parent { Ok(()) } else { Err("its supervisor has ended".to_owned()) }
    })
}

/// Executes a program in a running container; returns only on an error.
pub(super) fn join(plan: &Join) -> Result<Infallible, String> {
    let null = null()?;
    let main = plan.main.open().map_err(|error| error.to_string())?;
    let main = main.ok_or_else(|| "the container has ended".to_owned())?;
    enter_cgroup(plan.cgroup.as_deref())?;
    at("file system", unshare(UnshareFlags::FS))?;
    at(
        "the container's mounts",
        rustix::thread::move_into_thread_name_spaces(main.as_fd(), ThreadNameSpaceType::MOUNT),
    )?;
    become_program(&plan.program, &null, || Ok(()))
}

/// Moves the process into the container's cgroup, so that it is killed with the container.
fn enter_cgroup(cgroup: Option<&Path>) -> Result<(), String> {
    let Some(cgroup) = cgroup else { return Ok(()) };
    let file = cgroup.join("cgroup.procs");
    std::fs::write(&file, "0").map_err(|error| format!("{}: {error}", file.display()))
}

fn null() -> Result<OwnedFd, String> {
    at("/dev/null", rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()))
}

fn become_program(
    program: &Program,
    null: &OwnedFd,
    last: impl FnOnce() -> Result<(), String>,
) -> Result<Infallible, String> {
    let user = user(program)?;
    at("groups", rustix::thread::set_thread_groups(&user.groups))?;
    at("group", rustix::thread::set_thread_res_gid(user.group, user.group, user.group))?;
    at("user", rustix::thread::set_thread_res_uid(user.user, user.user, user.user))?;
    if program.no_new_privileges {
        at("no new privileges", rustix::thread::set_no_new_privs(true))?;
    }
    last()?;
    // The default of container runtimes; the umask of the agent may be stricter.
    rustix::process::umask(Mode::WGRP | Mode::WOTH);
    let dir = if program.working_dir.is_empty() { "/" } else { &program.working_dir };
    at(&format!("working directory {dir}"), rustix::process::chdir(dir))?;
    let (name, args) = program.args.split_first().ok_or_else(|| "no command specified".to_owned())?;
    let mut command = Command::new(name);
    command.args(args).env_clear().env("PATH", PATH).env("HOME", &user.home);
    command.envs(program.env.iter().map(|(name, value)| (name, value)));
    at("standard input", rustix::stdio::dup2_stdin(null))?;
    let error = command.exec();
    Err(format!("exec: {name:?}: {error}"))
}

struct User {
    user: Uid,
    group: Gid,
    groups: Vec<Gid>,
    home: String,
}

/// The user of the program: from the pod, and from the container's own `/etc/passwd` and `/etc/group`.
fn user(program: &Program) -> Result<User, String> {
    let user = program.user.unwrap_or_else(|| rustix::process::getuid().as_raw());
    if user == 0 && program.not_root {
        return Err("container has runAsNonRoot and would run as root".to_owned());
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let line = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let line = line.into_iter().find(|fields| fields.get(2).is_some_and(|id| id.parse() == Ok(user)));
    let field = |n: usize| line.as_ref().and_then(|fields| fields.get(n).copied());
    let group = program.group.or_else(|| field(3)?.parse().ok()).unwrap_or(0);
    let mut groups = program.groups.clone();
    if let Some(name) = field(0).filter(|_| !program.strict_groups) {
        let table = std::fs::read_to_string("/etc/group").unwrap_or_default();
        groups.extend(groups_of(&table, name));
    }
    groups.push(group);
    groups.sort_unstable();
    groups.dedup();
    Ok(User {
        user: Uid::from_raw(user),
        group: Gid::from_raw(group),
        groups: groups.into_iter().map(Gid::from_raw).collect(),
        home: field(5).filter(|home| !home.is_empty()).unwrap_or("/").to_owned(),
    })
}

/// The groups that list a user as a member.
fn groups_of(table: &str, user: &str) -> Vec<u32> {
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_member = fields.get(3)?.split(',').any(|member| member.trim() == user);
        fields.get(2).filter(|_| is_member)?.parse().ok()
    };
    table.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn groups_that_list_a_user_are_found() {
        let table = "root:x:0:\nadm:x:4:a,b\nx\ndisk:x:6:b\nodd:x:y:b\n";
        assert_eq!(groups_of(table, "b"), [4, 6]);
        assert_eq!(groups_of(table, "c"), Vec::<u32>::new());
    }

    #[test]
    fn run_as_non_root_refuses_root() {
        let program = Program { user: Some(0), not_root: true, ..Program::default() };
        assert!(user(&program).err().unwrap().contains("runAsNonRoot"));
        let program = Program { user: Some(4321), groups: vec![7, 7, 5], ..Program::default() };
        let who = user(&program).unwrap();
        assert_eq!((who.user.as_raw(), who.group.as_raw(), who.home.as_str()), (4321, 0, "/"));
        assert_eq!(who.groups.iter().map(|group| group.as_raw()).collect::<Vec<_>>(), [0, 5, 7]);
    }
}
