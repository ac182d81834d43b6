package kith

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"

	messagev1 "kith.example/client/gen/kith/message/v1"
)

// call is one call, over all of its tries.
type call struct {
	Client
	rule rule
	// id is the request_id or client_message_id of a write.
	id string
	// carried are the texts of the session, and sent is the credential of the last try.
	carried   []string
	sent      string
	isRefused bool
	tries     int
}

// Invoke makes one call with one answer. The stubs of a [Client] call it.
func (c *Client) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	if _, isSet := ctx.Deadline(); !isSet {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.link.Timeout)
		defer cancel()
	}
	// A tenth of all calls may be repeated, and 100 calls more.
	if c.link.spent.Load() > 0 {
		c.link.spent.Add(-1)
	}
	made := call{Client: c.changed(options), rule: rules[method]}
	request, err := made.prepare(request)
	if err != nil {
		return &Error{Code: codes.InvalidArgument, Message: err.Error(), cause: err}
	}
	for {
		err := made.try(ctx, method, request, reply, options)
		if err == nil {
			return nil
		}
		failure := toError(ctx, err)
		if failure.RequestID = made.id; !made.again(ctx, failure) {
			return failure
		}
	}
}

// try sends the call once. It warns once if a node is older than this package.
func (c *call) try(ctx context.Context, method string, request, reply any, options []grpc.CallOption) error {
	outgoing, err := c.outgoing(ctx)
	if err != nil {
		return err
	}
	var header, trailer metadata.MD
	// To copy the metadata of an answer takes a tenth of the time of a call: once a second is enough for the version.
	now := time.Now().Unix()
	if c.session != nil || c.link.checked.Swap(now) != now {
		options = append(slices.Clip(options), grpc.Header(&header), grpc.Trailer(&trailer))
	}
	err = c.link.conn.Invoke(outgoing, method, request, reply, options...)
	c.session.merge(c.carried, append(header["kith-session"], trailer["kith-session"]...))
	// A node that names no version is older than all.
	version, _ := strconv.Atoi(strings.Join(header["kith-contract"], ""))
	if err == nil && header != nil && version < c.link.contract && c.link.isWarned.CompareAndSwap(false, true) {
		slog.Warn("kith: a node has an older contract than this client", "node", version, "client", c.link.contract)
	}
	return err
}

// outgoing adds the metadata of the call.
func (c *call) outgoing(ctx context.Context) (context.Context, error) {
	pairs := make([]string, 0, 8)
	if c.credential.fetch != nil {
		value, err := c.credential.value(ctx, "")
		if err != nil {
			return ctx, err
		}
		c.sent = value
		pairs = append(pairs, "authorization", value)
	}
	if c.acting != 0 {
		pairs = append(pairs, "kith-acting-user", strconv.FormatInt(c.acting, 10))
	}
	c.carried = c.session.latest(4)
	for _, text := range c.carried {
		pairs = append(pairs, "kith-session", text)
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...), nil
}

// again waits for the next try. It returns false if there is none.
func (c *call) again(ctx context.Context, failure *Error) bool {
	if failure.Code == codes.Unauthenticated && c.sent != "" && !c.isRefused {
		c.isRefused = true
		renewed, err := c.credential.value(ctx, c.sent)
		return err == nil && renewed != c.sent
	}
	c.tries++
	isAllowed := c.rule.isRepeatable && c.link.spent.Load() < 1000
	return isAllowed && pause(ctx, failure, c.link.Pause, c.tries) && c.link.spent.Add(10) > 0
}

// NewStream opens a stream, without a deadline. It is not opened again: [Client.Receive] and [Follow] do that.
func (c *Client) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	made := call{Client: c.changed(options)}
	outgoing, err := made.outgoing(ctx)
	if err != nil {
		return nil, err
	}
	from, err := c.link.conn.NewStream(outgoing, desc, method, options...)
	if err != nil {
		return nil, toError(ctx, err)
	}
	return &stream{ClientStream: from, call: made, ctx: ctx}, nil
}

type stream struct {
	grpc.ClientStream
	call call
	// ctx is that of the caller: the stream's own one ends with the stream.
	ctx context.Context
}

// RecvMsg receives the next message. It returns an *Error, or [io.EOF] at the end.
func (s *stream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if err == nil || err == io.EOF {
		return err
	}
	failure := toError(s.ctx, err)
	if failure.Code == codes.Unauthenticated && s.call.sent != "" {
		_, _ = s.call.credential.value(s.ctx, s.call.sent)
	}
	return failure
}

// texts are those of the metadata kith-session that no later text covers. An empty one asks for a first text.
type texts struct {
	mutex sync.Mutex
	known []string
}

// latest returns the last texts, at most so many.
func (t *texts) latest(most int) []string {
	if t == nil {
		return nil
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return slices.Clone(t.known[max(0, len(t.known)-most):])
}

// merge replaces what a call has carried by the text of its answer, which covers it.
func (t *texts) merge(carried, answered []string) {
	if t != nil && len(answered) > 0 {
		t.mutex.Lock()
		defer t.mutex.Unlock()
		t.known = slices.DeleteFunc(t.known, func(text string) bool { return slices.Contains(append(carried, answered...), text) })
		t.known = append(t.known, answered...)
	}
}

// rule says how a method is repeated.
type rule struct {
	isRead, isRepeatable bool
	// id is the field that makes repeated writes one.
	id protoreflect.Name
}

// prepare encodes a write once, with an id, so that its repetitions are the same byte for byte. It does not
// change the message of the caller, who may send it again as another one.
func (c *call) prepare(request any) (any, error) {
	if erase, ok := request.(*messagev1.EraseUserMessagesRequest); ok && erase.GetAgain() {
		c.rule = rule{}
	}
	if c.rule.isRead || !c.rule.isRepeatable {
		return request, nil
	}
	message := proto.Clone(request.(proto.Message))
	if batch, ok := message.(*messagev1.BatchSendRequest); ok {
		for _, send := range batch.GetMessages() {
			send.ClientMessageId = cmp.Or(send.GetClientMessageId(), rand.Text())
		}
	}
	if field := message.ProtoReflect().Descriptor().Fields().ByName(c.rule.id); field != nil {
		c.id = cmp.Or(message.ProtoReflect().Get(field).String(), rand.Text())
		message.ProtoReflect().Set(field, protoreflect.ValueOfString(c.id))
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	// What a message does not know is sent as it is.
	frozen := &emptypb.Empty{}
	frozen.ProtoReflect().SetUnknown(encoded)
	return frozen, err
}

// pause waits before the next try, longer each time. It returns false, at once if that is known, if a repetition
// does not help or the context ends first.
func pause(ctx context.Context, failure *Error, first time.Duration, tries int) bool {
	wait := failure.RetryDelay
	if failure.Code == codes.Unavailable {
		wait = cmp.Or(wait, first)
	}
	wait = max(wait, min(wait<<min(tries-1, 8), 2*time.Second))
	wait += mathrand.N(wait/4 + 1)
	if end, isSet := ctx.Deadline(); wait == 0 || isSet && time.Until(end) <= wait {
		return false
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	<-waiting.Done()
	return ctx.Err() == nil
}
