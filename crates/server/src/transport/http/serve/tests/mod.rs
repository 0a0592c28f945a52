//! Real connections over loopback.

mod accept;
mod http2;
mod stop;

use crate::{
    outbound::stream::{Retention, Stream, StreamRules},
    transport::http::{
        event_stream::{EventStream, EventStreamOptions},
        serve::*,
    },
};
use axum::{Router, body, routing::get};
use http2::{ask_by_http2, data_by_http2};
use hyper_util::service::TowerToHyperService;
use std::sync::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Notify, Semaphore, oneshot},
    task::JoinHandle,
};

const SHORT: Duration = Duration::from_millis(50);
/// More than the system keeps for a client that does not read.
const LONG: usize = 64 * 1024 * 1024;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
const LAST_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

struct RunningServer {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<io::Result<()>>,
}

/// Any router, as what is served.
struct Site(Router);

impl Respond for Site {
    type Body = body::Body;

    async fn respond(&self, request: Request<Incoming>) -> Response<body::Body> {
        let router = TowerToHyperService::new(self.0.clone());
        router.call(request).await.unwrap()
    }
}

async fn start(router: Router, options: ServeOptions) -> RunningServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let served = tokio::spawn(serve(listener, Site(router), options, async {
        let _ = stopped.await;
    }));
    RunningServer {
        address,
        stop,
        served,
    }
}

impl RunningServer {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends these bytes and reads until the server closes the connection.
    async fn exchange(&self, bytes: &[u8]) -> String {
        let mut client = self.connect().await;
        client.write_all(bytes).await.unwrap();
        rest(&mut client).await
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.served.await.unwrap().unwrap();
    }
}

/// Everything up to the end of the connection.
async fn rest(client: &mut TcpStream) -> String {
    let mut all = Vec::new();
    // Closing with unread bytes resets the connection, which is an end too.
    let _ = client.read_to_end(&mut all).await;
    String::from_utf8_lossy(&all).into_owned()
}

/// Reads until the text has come.
async fn read_until(client: &mut TcpStream, text: &str) -> String {
    let mut all = Vec::new();
    loop {
        let so_far = String::from_utf8_lossy(&all).into_owned();
        if so_far.contains(text) {
            return so_far;
        }
        let read = client.read_buf(&mut all).await.unwrap();
        assert_ne!(read, 0, "the connection ended after {so_far:?}");
    }
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

fn short_header() -> ServeOptions {
    ServeOptions {
        header_timeout: SHORT,
        ..ServeOptions::default()
    }
}

#[tokio::test]
async fn a_handler_knows_the_address_of_its_client() {
    let router = Router::new().route(
        "/",
        get(|ConnectInfo(remote): ConnectInfo<SocketAddr>| async move { format!("<{remote}>") }),
    );
    let server = start(router, ServeOptions::default()).await;
    let mut client = server.connect().await;
    client.write_all(LAST_REQUEST).await.unwrap();
    let own = client.local_addr().unwrap();
    assert!(rest(&mut client).await.ends_with(&format!("<{own}>")));
    server.stop().await;
}

#[tokio::test]
async fn a_connection_takes_one_request_after_another() {
    let server = start(hello(), ServeOptions::default()).await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        client.write_all(REQUEST).await.unwrap();
        read_until(&mut client, "hello").await;
    }
    server.stop().await;
    assert_eq!(rest(&mut client).await, "");
}

#[tokio::test]
async fn a_client_that_is_slow_to_ask_is_cut_off() {
    let server = start(hello(), short_header()).await;
    let beginnings: [&[u8]; 6] = [
        b"",
        b"G",
        b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ",
        // The beginning of what begins HTTP/2.
        b"PRI * HT",
        PREFACE,
        // A header block that is not finished.
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x03\x01\x01\0\0\0\x01\x82\x86\x84",
    ];
    for beginning in beginnings {
        assert!(!server.exchange(beginning).await.contains("200 OK"));
    }
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_is_slow_to_ask_again_is_cut_off() {
    let server = start(hello(), short_header()).await;
    let mut client = server.connect().await;
    client.write_all(REQUEST).await.unwrap();
    read_until(&mut client, "hello").await;
    assert_eq!(rest(&mut client).await, "");
    let mut client = server.connect().await;
    client.write_all(REQUEST).await.unwrap();
    read_until(&mut client, "hello").await;
    client.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
    assert_eq!(rest(&mut client).await, "");
    server.stop().await;
}

#[tokio::test]
async fn who_may_take_for_ever_is_never_cut_off() {
    let options = ServeOptions {
        header_timeout: Duration::MAX,
        idle_timeout: Duration::MAX,
        ..ServeOptions::default()
    };
    let server = start(hello(), options).await;
    let mut client = server.connect().await;
    for _ in 0..2 {
        client.write_all(REQUEST).await.unwrap();
        read_until(&mut client, "hello").await;
    }
    let mut http2 = ask_by_http2(&server).await;
    assert_eq!(data_by_http2(&mut http2).await, b"hello");
    drop(http2);
    server.stop().await;
}

#[tokio::test]
async fn a_slow_answer_is_no_slow_question() {
    let options = ServeOptions {
        idle_timeout: SHORT,
        ..short_header()
    };
    let answers = Arc::new(Semaphore::new(0));
    let waiting = Arc::clone(&answers);
    let router = Router::new().route(
        "/",
        get(|| async move {
            waiting.acquire().await.unwrap().forget();
            "slow"
        }),
    );
    let server = start(router, options).await;
    let mut slow = server.connect().await;
    slow.write_all(&[REQUEST, LAST_REQUEST].concat())
        .await
        .unwrap();
    // Connections that came later are closed for being silent: the time is over.
    for _ in 0..4 {
        server.exchange(b"").await;
    }
    answers.add_permits(2);
    assert_eq!(rest(&mut slow).await.matches("slow").count(), 2);
    server.stop().await;
}

/// How much of a long answer comes to a client that takes nothing until the others are gone for
/// their silence.
async fn late_reader(options: ServeOptions) -> usize {
    let long = || async { vec![b'x'; LONG] };
    let server = start(Router::new().route("/", get(long)), options).await;
    let mut late = server.connect().await;
    late.write_all(LAST_REQUEST).await.unwrap();
    for _ in 0..4 {
        server.exchange(b"").await;
    }
    let taken = rest(&mut late).await.len();
    server.stop().await;
    taken
}

#[tokio::test]
async fn a_client_that_takes_its_answer_late_is_not_slow_to_ask() {
    assert!(late_reader(short_header()).await > LONG);
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_off() {
    let options = ServeOptions {
        idle_timeout: SHORT,
        ..short_header()
    };
    assert!(late_reader(options).await < LONG);
}

#[tokio::test]
async fn headers_that_are_too_large_are_refused() {
    let server = start(hello(), ServeOptions::default()).await;
    let mut request = b"GET / HTTP/1.1\r\nhost: x\r\nx-large: ".to_vec();
    request.resize(HEADERS as usize + 1, b'x');
    assert!(server.exchange(&request).await.contains(" 431 "));
    server.stop().await;
}

#[tokio::test]
async fn many_connections_are_served_at_once() {
    const MANY: usize = 100;
    let together = Arc::new(tokio::sync::Barrier::new(MANY));
    let router = Router::new().route(
        "/",
        get(|| async move {
            together.wait().await;
            "together"
        }),
    );
    let server = start(router, ServeOptions::default()).await;
    let exchanges = (0..MANY).map(|_| server.exchange(LAST_REQUEST));
    for answer in futures_util::future::join_all(exchanges).await {
        assert!(answer.ends_with("together"), "{answer}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_panicking_handler_costs_its_own_connection_only() {
    let panics = || async {
        if true {
            panic!("on purpose");
        }
    };
    let server = start(
        hello().route("/panic", get(panics)),
        ServeOptions::default(),
    )
    .await;
    let panicked = server.exchange(b"GET /panic HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(panicked.await, "");
    assert!(server.exchange(LAST_REQUEST).await.ends_with("hello"));
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_hangs_up_is_noticed_by_its_stream() {
    struct Goes(Arc<Notify>);
    impl Drop for Goes {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let stream = Stream::new(
        1,
        StreamRules {
            retention: Retention::Once,
            keep_bytes: 1000,
            keep_events: 10,
        },
    );
    stream.send(b"{}".into());
    let gone = Arc::new(Notify::new());
    let (same, goes) = (Arc::clone(&stream), Arc::clone(&gone));
    let router = Router::new().route(
        "/",
        get(move || async move {
            let options = EventStreamOptions {
                guard: Some(Box::new(Goes(goes))),
                ..EventStreamOptions::default()
            };
            body::Body::new(EventStream::new(&same, options))
        }),
    );
    let server = start(router, ServeOptions::default()).await;
    let mut client = server.connect().await;
    client.write_all(REQUEST).await.unwrap();
    read_until(&mut client, "data: {}\n\n").await;
    assert!(stream.has_reader());
    drop(client);
    gone.notified().await;
    assert!(!stream.has_reader());
    server.stop().await;
}
