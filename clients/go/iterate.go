package kith

import (
	"cmp"
	"context"
	"io"
	"iter"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	messagev1 "kith.example/client/gen/kith/message/v1"
	typev1 "kith.example/client/gen/kith/type/v1"
)

// Pages returns the items of all pages of a list, whether it continues by a token or by numbers, as PullMessages,
// History and PullBySeqs do. It asks for a page when the loop has come to the end of the page before.
//
//	for user, err := range kith.Pages(ctx, client.Users.SearchUsers, &userv1.SearchUsersRequest{Keyword: "Ann"},
//		(*userv1.SearchUsersResponse).GetUsers) {
func Pages[Request, Page proto.Message, Item any](
	ctx context.Context, list func(context.Context, Request, ...grpc.CallOption) (Page, error),
	request Request, items func(Page) []Item, options ...grpc.CallOption,
) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		request := proto.CloneOf(request)
		for hasMore := true; hasMore; {
			page, err := list(ctx, request, options...)
			if err != nil {
				yield(*new(Item), err)
				return
			}
			for _, item := range items(page) {
				if !yield(item, nil) {
					return
				}
			}
			hasMore = proceed(request, page)
		}
	}
}

// Follow returns the messages of a stream: WatchOffline, WatchPresence, ExportUsers, ExportGroups. It opens the
// stream again when a connection is lost, a node stops or a token ends, and continues after the last message that
// the loop is done with. It ends with the context, with the end of an export, or with an error that time does not
// change.
//
//	for response, err := range kith.Follow(ctx, client.Messages.WatchOffline,
//		&messagev1.WatchOfflineRequest{Cursor: cursor}) {
func Follow[Request proto.Message, Message any](
	ctx context.Context, open func(context.Context, Request, ...grpc.CallOption) (grpc.ServerStreamingClient[Message], error),
	request Request, options ...grpc.CallOption,
) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		request := proto.CloneOf(request)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		hasMore, isRefused, message := false, false, (*Message)(nil)
		for tries := 1; ; tries++ {
			stream, err := open(ctx, request, options...)
			for err == nil {
				if message, err = stream.Recv(); err == nil {
					if !yield(message, nil) {
						return
					}
					tries, isRefused = 1, false
					hasMore = proceed(request, any(message).(proto.Message))
				}
			}
			failure := toError(ctx, err)
			if err == io.EOF && !hasMore {
				return
			} else if failure.Code == codes.Unauthenticated && (!isRefused || failure.cause != nil) {
				isRefused, failure.Code = true, codes.Unavailable
			}
			if !pause(ctx, failure, 100*time.Millisecond, tries) {
				yield(nil, failure)
				return
			}
		}
	}
}

// State is what a receiver has. Store it together with the effects of the deliveries that it came with: a cursor
// alone loses messages after a reset.
type State struct {
	// Cursor resumes exactly, for 7 days.
	Cursor string `json:"cursor,omitempty"`
	// Positions are the highest numbers up to which no message is missing, by conversation.
	Positions map[string]int64 `json:"positions,omitempty"`
}

// Received is what a receiver gets at once.
type Received struct {
	// Deliveries are in the order of the node, without messages that were delivered before. May be empty.
	//
	// A Missed names messages that are not delivered: pull them, or store that they are to be pulled. The state
	// covers them. A Reset says that the stream had lost its place: what the positions do not cover follows as
	// missed. Without positions messages were lost: list the conversations.
	Deliveries []*messagev1.Delivery
	// State is that after these deliveries.
	State State
}

// Receive returns the events of a user, from the state of the last deliveries whose effects are stored, or from now
// on if it is empty. The request has the rest: the user (0: the acting user, or that of the token), the device that
// is online, and the audiences of notices.
//
// It continues after a lost connection, as [Follow] does, and after a reset. It ends with the context, or with an
// error that time does not change.
func (c *Client) Receive(
	ctx context.Context, from State, request *messagev1.ReceiveRequest, options ...grpc.CallOption,
) iter.Seq2[Received, error] {
	return func(yield func(Received, error) bool) {
		state, resets := State{from.Cursor, map[string]int64{}}, []*messagev1.Delivery(nil)
		maps.Copy(state.Positions, from.Positions)
		open := func(ctx context.Context, request *messagev1.ReceiveRequest, options ...grpc.CallOption) (
			grpc.ServerStreamingClient[messagev1.ReceiveResponse], error,
		) {
			state.begin(request)
			return c.Messages.Receive(ctx, request, options...)
		}
		for response, err := range Follow(ctx, open, request, options...) {
			deliveries := resets
			state.Cursor, resets = cmp.Or(response.GetCursor(), state.Cursor), nil
			for _, delivery := range response.GetDeliveries() {
				if delivery.GetReset_() != nil {
					// A list that is read before the next stream has begun would miss what is sent until then.
					state.Cursor, resets = "", append(resets, delivery)
				} else if state.advance(delivery) {
					deliveries = append(deliveries, delivery)
				}
			}
			received := Received{Deliveries: deliveries, State: State{state.Cursor, maps.Clone(state.Positions)}}
			if !yield(received, err) || err != nil {
				return
			}
		}
	}
}

// begin sets where a stream begins. A request has at most 2000 positions: others come as missed.
func (s State) begin(request *messagev1.ReceiveRequest) {
	request.Cursor, request.Positions = s.Cursor, nil
	request.Now = s.Cursor == "" && len(s.Positions) == 0
	for conversation, seq := range s.Positions {
		if len(request.Positions) < 2000 {
			request.Positions = append(request.Positions, &messagev1.Position{ConversationId: conversation, Seq: seq})
		}
	}
}

// advance raises the position of a conversation, and cuts what was missed to what is new. It returns false if
// nothing is.
func (s State) advance(delivery *messagev1.Delivery) bool {
	message, missed := delivery.GetMessage(), delivery.GetMissed()
	conversation := message.GetConversationId() + missed.GetConversationId()
	last, position := message.GetSeq()+missed.GetToSeq(), s.Positions[conversation]
	if missed != nil {
		missed.FromSeq = max(missed.GetFromSeq(), position+1)
	}
	if conversation != "" {
		s.Positions[conversation] = max(last, position)
	}
	return conversation == "" || last > position
}

// small are the requests of batches of at most 100. Others have at most 1000.
var small = []protoreflect.FullName{
	"kith.message.v1.BatchSendRequest", "kith.receipt.v1.BatchGetReceiptsRequest", "kith.sequence.v1.GetMaxSeqsRequest",
}

// Batch makes a call for any number of ids or messages, in as many batches as it takes, and returns all results
// in one answer, in the order of the request. What was too large for an answer begins the next batch; what is too
// large for an answer of its own keeps its error. If a batch fails, the results of those before it are returned
// with the error.
//
//	answer, err := kith.Batch(ctx, client.Users.BatchGetUsers, &userv1.BatchGetUsersRequest{UserIds: ids})
func Batch[Request, Answer proto.Message](
	ctx context.Context, call func(context.Context, Request, ...grpc.CallOption) (Answer, error),
	request Request, options ...grpc.CallOption,
) (whole Answer, err error) {
	given, size := listOf(request), 1000
	if slices.Contains(small, request.ProtoReflect().Descriptor().FullName()) {
		size = 100
	}
	whole = whole.ProtoReflect().New().Interface().(Answer)
	for done := 0; ; {
		asked := proto.CloneOf(request)
		listOf(asked).Truncate(0)
		for i := done; i < min(done+size, given.Len()); i++ {
			listOf(asked).Append(given.Get(i))
		}
		answer, err := call(ctx, asked, options...)
		if err != nil {
			return whole, err
		}
		results, kept := listOf(answer), 0
		for kept < results.Len() && (kept == 0 || !isTooLarge(results.Get(kept).Message())) {
			kept++
		}
		results.Truncate(kept)
		proto.Merge(whole, answer)
		if done += kept; kept == 0 || done >= given.Len() {
			return whole, nil
		}
	}
}

// listOf returns the first repeated field: the ids of a request, or the results of an answer.
func listOf(message proto.Message) protoreflect.List {
	fields, i := message.ProtoReflect().Descriptor().Fields(), 0
	for !fields.Get(i).IsList() {
		i++
	}
	return message.ProtoReflect().Mutable(fields.Get(i)).List()
}

func isTooLarge(item protoreflect.Message) bool {
	result, ok := item.Interface().(interface{ GetError() *typev1.ResultError })
	return ok && result.GetError().GetReason() == string(ReasonAnswerTooLarge)
}
