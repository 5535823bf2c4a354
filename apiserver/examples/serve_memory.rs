//! Serves from memory, for trying things out.
use std::sync::Arc;
#[tokio::main]
async fn main() {
    let store: Arc<dyn orlop_store::Kv<orlop_apiserver::Projection>> =
        Arc::new(orlop_store::memory::Memory::new());
    let config = orlop_apiserver::Config { extra_field_selectors: false, ..Default::default() };
    let server = orlop_apiserver::Server::start(store, config).await.expect("starts");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8090").await.expect("binds");
    axum::serve(listener, server.router()).await.expect("serves");
}
