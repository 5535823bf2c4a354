//! Machines on cables: network namespaces, each connected to this machine by a veth pair. A cable can be pulled
//! and put in again. Files and mounts are those of this machine. Everything is removed when the holder exits: a
//! namespace lives as long as a process.

use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::wait;

/// The longest life of a holder, in seconds, also when the test is killed.
const LONGEST: &str = "900";

/// A machine.
pub(crate) struct Machine {
    holder: Child,
    /// This machine's end of the cable.
    device: String,
    /// This machine's address on the cable.
    pub(crate) here: Ipv4Addr,
    /// The machine's address.
    pub(crate) address: Ipv4Addr,
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

impl Machine {
    /// Starts a machine with its cable in; an error says why this host cannot have one.
    pub(crate) async fn start() -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            return Err("not root".to_owned());
        }
        for program in ["ip", "nsenter", "unshare"] {
            run(program, &[if program == "ip" { "-V" } else { "--version" }])?;
        }
        // Networks of four addresses from the range for network tests (RFC 2544), chosen by process and by machine.
        let count = COUNT.fetch_add(1, Ordering::Relaxed) % 8;
        let network = 0xc612_0000 + (std::process::id() % 4096) * 32 + count * 4;
        let holder = Command::new("unshare")
            .args(["--net", "sleep", LONGEST])
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let device = format!("ot{:x}n{count}", std::process::id());
        let mut machine = Machine {
            holder,
            device,
            here: Ipv4Addr::from(network + 1),
            address: Ipv4Addr::from(network + 2),
        };
        machine.has_left().await?;
        machine.wire()?;
        Ok(machine)
    }

    fn namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    /// Waits until the holder has its own namespace: before that, its device would be created on this machine.
    async fn has_left(&mut self) -> Result<(), String> {
        let ours = std::fs::read_link("/proc/self/ns/net").map_err(|error| error.to_string())?;
        let namespace = self.namespace();
        wait::until("a network namespace", async || {
            if let Ok(Some(status)) = self.holder.try_wait() {
                return Ok(Err(format!("unshare --net: {status}")));
            }
            match std::fs::read_link(&namespace) {
                Ok(theirs) if theirs != ours => Ok(Ok(())),
                Ok(_) | Err(_) => Err("not yet".to_owned()),
            }
        })
        .await
    }

    fn wire(&self) -> Result<(), String> {
        let (holder, device) = (self.holder.id().to_string(), self.device.as_str());
        let cable = ["link", "add", device, "type", "veth", "peer", "name", "uplink", "netns", &holder];
        run("ip", &cable)?;
        run("ip", &["address", "add", &format!("{}/30", self.here), "dev", device])?;
        let net = format!("--net={}", self.namespace());
        let there = |args: &[&str]| run("nsenter", &[&[net.as_str(), "ip"], args].concat());
        there(&["address", "add", &format!("{}/30", self.address), "dev", "uplink"])?;
        there(&["link", "set", "uplink", "up"])?;
        there(&["link", "set", "lo", "up"])?;
        self.heal();
        Ok(())
    }

    /// Pulls the cable.
    pub(crate) fn cut(&self) {
        run("ip", &["link", "set", &self.device, "down"]).unwrap();
    }

    /// Puts the cable in.
    pub(crate) fn heal(&self) {
        run("ip", &["link", "set", &self.device, "up"]).unwrap();
    }

    /// The prefix of a command that runs on the machine.
    pub(crate) fn prefix(&self) -> [String; 2] {
        ["nsenter".to_owned(), format!("--net={}", self.namespace())]
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The device disappears with the namespace, and that with its last process; this does not wait for it.
        let _ = run("ip", &["link", "delete", &self.device]);
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
