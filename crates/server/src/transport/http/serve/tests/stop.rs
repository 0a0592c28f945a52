//! What happens to connections when the server stops.

use super::{
    http2::{ask_by_http2, data_by_http2, read_frame},
    *,
};

#[tokio::test]
async fn a_stop_lets_a_running_response_finish_and_refuses_new_connections() {
    let (begun, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, finishes) = (Arc::clone(&begun), Arc::clone(&finish));
    let router = Router::new().route(
        "/",
        get(|| async move {
            begins.notify_one();
            finishes.notified().await;
            "finished"
        }),
    );
    let server = start(router, short_header()).await;
    let mut client = server.connect().await;
    client.write_all(REQUEST).await.unwrap();
    begun.notified().await;
    server.stop.send(()).unwrap();
    while TcpStream::connect(server.address).await.is_ok() {}
    // A client without a running request would have been dropped by now.
    let clock = start(hello(), short_header()).await;
    for _ in 0..3 {
        clock.exchange(b"").await;
    }
    clock.stop().await;
    assert!(!server.served.is_finished());
    finish.notify_one();
    assert!(rest(&mut client).await.ends_with("finished"));
    server.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_does_not_wait_for_idle_connections() {
    let server = start(hello(), ServeOptions::default()).await;
    let mut clients = Vec::new();
    for bytes in [&b""[..], REQUEST, PREFACE] {
        let mut client = server.connect().await;
        client.write_all(bytes).await.unwrap();
        clients.push(client);
    }
    let mut http2 = ask_by_http2(&server).await;
    assert_eq!(data_by_http2(&mut http2).await, b"hello");
    drop(http2);
    read_until(&mut clients[1], "hello").await;
    drop(clients.pop());
    server.stop().await;
    for mut client in clients {
        assert_eq!(rest(&mut client).await, "");
    }
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_client_that_does_not_take_leave() {
    let options = ServeOptions {
        drain: Duration::from_secs(3600),
        ..short_header()
    };
    let server = start(hello(), options).await;
    let mut client = ask_by_http2(&server).await;
    assert_eq!(data_by_http2(&mut client).await, b"hello");
    server.stop().await;
    while read_frame(&mut client).await.is_ok() {}
}

#[tokio::test]
async fn what_has_not_finished_when_the_time_is_over_is_dropped() {
    let (begun, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, drops) = (Arc::clone(&begun), Arc::clone(&dropped));
    let router = Router::new().route(
        "/",
        get(|| async move {
            let _guard = OnDrop(drops);
            begins.notify_one();
            std::future::pending::<()>().await;
        }),
    );
    let options = ServeOptions {
        drain: SHORT,
        ..ServeOptions::default()
    };
    let server = start(router.clone(), options.clone()).await;
    let mut client = server.connect().await;
    client.write_all(REQUEST).await.unwrap();
    begun.notified().await;
    server.stop().await;
    assert_eq!(rest(&mut client).await, "");
    dropped.notified().await;

    let server = start(router, options).await;
    let mut client = ask_by_http2(&server).await;
    begun.notified().await;
    server.stop().await;
    while read_frame(&mut client).await.is_ok() {}
    dropped.notified().await;
}

struct OnDrop(Arc<Notify>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}
