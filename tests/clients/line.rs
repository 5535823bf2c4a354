//! The line between a client and its server: a TCP relay that a test can cut and restore while the server keeps
//! running.

use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A relay. Dropping it closes all connections.
pub(crate) struct Line {
    url: String,
    is_whole: Arc<watch::Sender<bool>>,
}

impl Line {
    /// Opens a line to the server at a URL.
    pub(crate) async fn to(server: &str) -> Line {
        let target = server.strip_prefix("http://").expect("an URL without TLS").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (is_whole, state) = watch::channel(true);
        tokio::spawn(relay(listener, target, state));
        Line { url, is_whole: Arc::new(is_whole) }
    }

    /// The URL for the client.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Closes every connection; new ones are closed immediately.
    pub(crate) fn cut(&self) {
        self.is_whole.send_replace(false);
    }

    /// Lets connections through again.
    pub(crate) fn mend(&self) {
        self.is_whole.send_replace(true);
    }
}

async fn relay(listener: TcpListener, target: String, mut state: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // The line has been dropped.
            gone = state.wait_for(|_| false) => {
                debug_assert!(gone.is_err());
                return;
            }
        };
        let Ok((mut client, _)) = accepted else { continue };
        let (target, mut state) = (target.clone(), state.clone());
        tokio::spawn(async move {
            if !*state.borrow_and_update() {
                return;
            }
            // To the client, an unreachable server looks like a cut line.
            let Ok(mut server) = TcpStream::connect(target).await else { return };
            tokio::select! {
                _ = copy_bidirectional(&mut client, &mut server) => {}
                _ = state.wait_for(|is_whole| !is_whole) => {}
            }
        });
    }
}
