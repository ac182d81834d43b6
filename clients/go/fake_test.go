package kith

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// fake is a node that answers every call by a function, and keeps what it got.
type fake struct {
	answer func(*request) error
	mutex  sync.Mutex
	got    []*request
}

// request is one try that has arrived.
type request struct {
	grpc.ServerStream
	number  int
	method  string
	at      time.Time
	header  metadata.MD
	encoded []byte
}

// read decodes the request.
func read[Message proto.Message](t *testing.T, r *request, into Message) Message {
	t.Helper()
	if err := proto.Unmarshal(r.encoded, into); err != nil {
		t.Fatal(err)
	}
	return into
}

// raw receives messages as they are on the wire.
type raw struct{ encoding.CodecV2 }

var rawCodec = grpc.ForceServerCodecV2(raw{encoding.GetCodecV2("proto")})

func (raw) Unmarshal(data mem.BufferSlice, message any) error {
	*message.(*[]byte) = data.Materialize()
	return nil
}

// start serves a fake node in memory and returns a client of it.
func start(t *testing.T, config Config, answer func(*request) error) (*Client, *fake) {
	t.Helper()
	node := &fake{answer: answer}
	server := grpc.NewServer(grpc.UnknownServiceHandler(node.serve), rawCodec)
	listener := bufconn.Listen(1 << 20)
	go server.Serve(listener)
	config.Addresses = []string{"127.0.0.1:1"}
	config.DialOptions = append(config.DialOptions, grpc.WithDisableHealthCheck(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	client, err := Connect(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Stop() })
	return client, node
}

func (n *fake) serve(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	if strings.HasPrefix(method, "/grpc.health") {
		stream.SendMsg(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING})
		<-stream.Context().Done()
		return nil
	}
	header, _ := metadata.FromIncomingContext(stream.Context())
	request := &request{ServerStream: stream, method: method, at: time.Now(), header: header}
	if err := stream.RecvMsg(&request.encoded); err != nil {
		return err
	}
	n.mutex.Lock()
	n.got = append(n.got, request)
	request.number = len(n.got)
	n.mutex.Unlock()
	return n.answer(request)
}

// tries returns what has arrived.
func (n *fake) tries() []*request {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return append([]*request(nil), n.got...)
}

// failure returns an error as a node sends it. Without a reason it is that of a proxy.
func failure(code codes.Code, reason Reason, retry time.Duration, more ...protoadapt.MessageV1) error {
	made := status.New(code, "no")
	if reason != "" {
		more = append(more, &errdetails.ErrorInfo{Domain: "kith", Reason: string(reason)})
	}
	if retry > 0 {
		more = append(more, &errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
	}
	made, _ = made.WithDetails(more...)
	return made.Err()
}
