//! `kith call`: calls any node method in JSON, without the `.proto` files.

mod answer;
mod body;
pub(crate) mod codec;
mod failure;
mod list;
pub(crate) mod methods;

use crate::client::Channel;
use anyhow::{Context as _, Result, bail};
use prost_reflect::{DynamicMessage, MethodDescriptor};
use tonic::{
    Request, Status,
    client::Grpc,
    metadata::{Ascii, MetadataKey, MetadataMap, MetadataValue},
};

use self::{answer::AnswerSink, codec::DynamicCodec, methods::Methods};
use super::{Common, FAILED, OK, client::Target};

const ACTING: &str = "kith-acting-user";

/// Which method to call, and with what.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "kith call [OPTIONS] METHOD [BODY]\n       kith call --list",
    after_help = "Examples:\n  \
        kith call CreateUser '{\"user\":{\"userName\":\"Ada\"}}'\n  \
        kith call user.UserService/GetUser '{\"userId\":10000000000}' -v\n  \
        kith call ImportUsers @records.jsonl\n\n\
        Answers go to standard output: indented, or in one line with -o plain; one line each if the node answers with a stream. Numbers of 64 bits are strings in them, as proto3 JSON has it. The error of a failed call goes to standard error, with -o json as JSON.\n\n\
        Exit codes: 0 answered, 1 the call failed, 2 it could not begin."
)]
pub(super) struct CallOptions {
    /// Such as kith.user.v1.UserService/GetUser, user.UserService/GetUser, or GetUser if that is unique
    #[arg(required_unless_present = "list")]
    method: Option<String>,
    /// The request as JSON; `-`: from standard input; `@FILE`: from a file. JSON Lines if the method takes a
    /// stream
    #[arg(default_value = "{}")]
    body: String,
    /// List the methods that can be called
    #[arg(long)]
    list: bool,
    /// Metadata to send; may be given several times
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE", value_parser = header)]
    headers: Vec<Header>,
    /// User on behalf of whom to call
    #[arg(long, value_name = "ID")]
    acting_user: Option<i64>,
    /// Print the metadata of the answer on standard error: which tier it came from, and more
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    target: Target,
}

type Header = (MetadataKey<Ascii>, MetadataValue<Ascii>);

/// A method with its request.
struct Call<'a> {
    method: MethodDescriptor,
    metadata: MetadataMap,
    arguments: &'a CallOptions,
    sink: AnswerSink,
}

/// Calls the method. Fails when it could not begin: no such method, an invalid body, no node.
pub(super) async fn run(common: &Common, arguments: &CallOptions) -> Result<u8> {
    if arguments.list {
        common.output.print(&list::lines(&Methods::built_in()?))?;
        return Ok(OK);
    }
    let (method, channel) = find(arguments).await?;
    let sink = AnswerSink::new(common.output.form(), arguments.verbose);
    let call = Call { method, metadata: metadata(arguments)?, arguments, sink };
    match call.run(channel).await? {
        Ok(()) => Ok(OK),
        Err(status) => {
            call.sink.write_failure(&status);
            Ok(FAILED)
        }
    }
}

/// Finds the requested method, and connects to the node.
async fn find(arguments: &CallOptions) -> Result<(MethodDescriptor, Channel)> {
    let name = arguments.method.as_deref().context("which METHOD? kith call --list lists them")?;
    let method = Methods::built_in()?.find(name)?;
    Ok((method, arguments.target.connect().await?))
}

impl Call<'_> {
    async fn run(&self, channel: Channel) -> Result<Result<(), Status>> {
        let mut client = Grpc::new(channel);
        if let Err(error) = client.ready().await {
            bail!("no node answers at {} ({error}); name another with --addr", self.arguments.target.addr);
        }
        match (self.method.is_client_streaming(), self.method.is_server_streaming()) {
            (false, false) => self.unary(client).await,
            (false, true) => {
                let message = body::read_one(&self.method.input(), &self.arguments.body)?;
                self.streamed(client, tokio_stream::once(message)).await
            }
            (true, _) => {
                let (messages, failed) = body::read_lines(self.method.input(), &self.arguments.body)?;
                tokio::select! {
                    biased;
                    why = failed => Err(why),
                    ended = self.streamed(client, messages) => ended,
                }
            }
        }
    }

    async fn unary(&self, mut client: Grpc<Channel>) -> Result<Result<(), Status>> {
        let message = body::read_one(&self.method.input(), &self.arguments.body)?;
        let mut request = self.request(message);
        request.set_timeout(self.arguments.target.options.answer_limit());
        let call =
            async { client.unary(request, codec::path(&self.method)?, DynamicCodec::of(&self.method)).await };
        Ok(match self.arguments.target.answer(call).await {
            Ok(answer) => {
                self.sink.write_metadata(answer.metadata());
                self.sink.write_answer(answer.get_ref())?;
                Ok(())
            }
            Err(status) => Err(status),
        })
    }

    /// Sends one or many messages and prints one or many answers.
    async fn streamed(
        &self,
        mut client: Grpc<Channel>,
        messages: impl tokio_stream::Stream<Item = DynamicMessage> + Send + 'static,
    ) -> Result<Result<(), Status>> {
        let limit = self.arguments.target.options.message_limit();
        let path = match codec::path(&self.method) {
            Ok(path) => path,
            Err(status) => return Ok(Err(status)),
        };
        let call = client.streaming(self.request(messages), path, DynamicCodec::of(&self.method));
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(answer)) => {
                self.sink.write_metadata(answer.metadata());
                answer::print_all(answer.into_inner(), limit, self.sink).await
            }
            Ok(Err(status)) => Ok(Err(status)),
            Err(_) => Ok(Err(answer::timed_out(limit))),
        }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        *request.metadata_mut() = self.metadata.clone();
        request
    }
}

fn metadata(arguments: &CallOptions) -> Result<MetadataMap> {
    let mut metadata = MetadataMap::new();
    for (name, value) in &arguments.headers {
        metadata.append(name.clone(), value.clone());
    }
    if let Some(user) = arguments.acting_user {
        metadata.insert(ACTING, user.to_string().parse().context("--acting-user")?);
    }
    Ok(metadata)
}

fn header(text: &str) -> Result<Header, String> {
    let (name, value) = text.split_once(':').ok_or("say NAME:VALUE")?;
    let name = name.trim().to_ascii_lowercase();
    let key = name.parse().map_err(|_| "the name is no name of metadata (a-z, 0-9, - _ .)".to_owned())?;
    let value = value.trim().parse().map_err(|_| "the value must be printable ASCII".to_owned())?;
    Ok((key, value))
}
