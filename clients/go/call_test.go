package kith

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	messagev1 "kith.example/client/gen/kith/message/v1"
	relationv1 "kith.example/client/gen/kith/relation/v1"
	typev1 "kith.example/client/gen/kith/type/v1"
	userv1 "kith.example/client/gen/kith/user/v1"
)

var ctx = context.Background()

// inBubble runs a test with a clock of its own, which stands still while the test works.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func TestRepetition(t *testing.T) {
	inBubble(t, "same_bytes_after_the_delay", func(t *testing.T) {
		client, node := start(t, Config{}, func(r *request) error {
			if r.number == 1 {
				return failure(codes.ResourceExhausted, ReasonOverloaded, 200*time.Millisecond)
			}
			return r.SendMsg(&userv1.UpdateUserResponse{})
		})
		user := &userv1.User{UserId: 7, Params: map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}}
		update := &userv1.UpdateUserRequest{User: user}
		if _, err := client.Users.UpdateUser(ctx, update); err != nil {
			t.Fatal(err)
		}
		tries := node.tries()
		if !bytes.Equal(tries[0].encoded, tries[1].encoded) {
			t.Error("the second try has other bytes")
		}
		if id := read(t, tries[0], &userv1.UpdateUserRequest{}).GetRequestId(); len(id) < 20 || update.GetRequestId() != "" {
			t.Errorf("the id is %q, that of the caller's message %q", id, update.GetRequestId())
		}
		if wait := tries[1].at.Sub(tries[0].at); wait < 200*time.Millisecond || wait > 250*time.Millisecond {
			t.Errorf("waited for %s", wait)
		}
	})
	inBubble(t, "own_pauses_grow_until_the_deadline", func(t *testing.T) {
		client, node := start(t, Config{}, func(*request) error { return failure(codes.Unavailable, "", 0) })
		begin := time.Now()
		_, err := client.Messages.SendMessage(ctx, &messagev1.SendMessageRequest{To: &messagev1.SendMessageRequest_ConversationId{ConversationId: "d7-8"}})
		var failed *Error
		if !errors.As(err, &failed) || failed.Code != codes.Unavailable || failed.Outcome != "unknown" {
			t.Fatalf("%#v", err)
		}
		tries := node.tries()
		if sent := read(t, tries[0], &messagev1.SendMessageRequest{}); sent.GetClientMessageId() != failed.RequestID {
			t.Errorf("the error names the id %q", failed.RequestID)
		}
		if len(tries) < 5 || len(tries) > 7 || time.Since(begin) > 5*time.Second {
			t.Errorf("%d tries in %s", len(tries), time.Since(begin))
		}
		for i := 2; i < len(tries)-1; i++ {
			if tries[i+1].at.Sub(tries[i].at) < tries[i].at.Sub(tries[i-1].at) {
				t.Errorf("pause %d is shorter than the one before", i)
			}
		}
	})
	inBubble(t, "budget_ends_repetitions", func(t *testing.T) {
		client, node := start(t, Config{}, func(*request) error { return failure(codes.Unavailable, "", 0) })
		for range 40 {
			client.Users.GetUser(ctx, &userv1.GetUserRequest{UserId: 7})
		}
		if count := len(node.tries()); count < 120 || count > 144 {
			t.Errorf("%d tries of 40 calls", count)
		}
	})
	inBubble(t, "lost_answer_of_a_single_try", func(t *testing.T) {
		client, node := start(t, Config{}, func(*request) error { return failure(codes.Internal, "", 0) })
		_, err := client.Users.VerifySecret(ctx, &userv1.VerifySecretRequest{UserId: 7})
		var failed *Error
		if !errors.As(err, &failed) || failed.Code != codes.Unavailable || failed.Outcome != "unknown" || len(node.tries()) != 1 {
			t.Errorf("%v after %d tries", err, len(node.tries()))
		}
	})
	inBubble(t, "each_message_of_a_batch_has_an_id", func(t *testing.T) {
		client, node := start(t, Config{}, func(r *request) error { return r.SendMsg(&messagev1.BatchSendResponse{}) })
		batch := &messagev1.BatchSendRequest{Messages: []*messagev1.SendMessageRequest{{}, {ClientMessageId: "mine"}, {}}}
		for range 2 {
			if _, err := client.Messages.BatchSend(ctx, batch); err != nil {
				t.Fatal(err)
			}
		}
		ids := map[string]bool{}
		for _, try := range node.tries() {
			for _, message := range read(t, try, &messagev1.BatchSendRequest{}).GetMessages() {
				ids[message.GetClientMessageId()] = true
			}
		}
		if len(ids) != 5 || !ids["mine"] || ids[""] {
			t.Errorf("ids are %v", ids)
		}
	})
}

func TestDeadline(t *testing.T) {
	inBubble(t, "five_seconds_over_all_tries", func(t *testing.T) {
		client, node := start(t, Config{}, func(r *request) error {
			if r.number == 1 {
				return failure(codes.Unavailable, ReasonStarting, time.Second)
			}
			<-r.Context().Done()
			return r.Context().Err()
		})
		begin := time.Now()
		_, err := client.Users.GetUser(ctx, &userv1.GetUserRequest{UserId: 7})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		if end, _ := node.tries()[1].Context().Deadline(); end.Sub(begin) > 5*time.Second+100*time.Millisecond {
			t.Errorf("the second try may take until %s", end.Sub(begin))
		}
	})
	inBubble(t, "caller_cancels", func(t *testing.T) {
		client, node := start(t, Config{}, func(*request) error { return failure(codes.Unavailable, "", time.Second) })
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(100*time.Millisecond, cancel)
		begin := time.Now()
		_, err := client.Users.GetUser(ctx, &userv1.GetUserRequest{UserId: 7})
		if err == nil || time.Since(begin) != 100*time.Millisecond || len(node.tries()) != 1 {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

func TestErrors(t *testing.T) {
	foreign := &errdetails.ErrorInfo{Domain: "proxy", Reason: "RBAC"}
	details := &errdetails.ErrorInfo{Domain: "kith", Reason: "MUTED", Metadata: map[string]string{"until": "2030-01-01T00:00:00Z", "outcome": "not_applied"}}
	bad := &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "body"}}}
	client, _ := start(t, Config{}, func(*request) error {
		return failure(codes.FailedPrecondition, "", 0, foreign, details, bad)
	})
	_, err := client.Messages.SendMessage(ctx, &messagev1.SendMessageRequest{To: &messagev1.SendMessageRequest_ConversationId{ConversationId: "g9"}, ClientMessageId: "m1"})
	var failed *Error
	if !errors.As(err, &failed) {
		t.Fatal(err)
	}
	if failed.Code != codes.FailedPrecondition || failed.Field != "body" || failed.Outcome != "not_applied" || failed.RequestID != "m1" {
		t.Errorf("%#v", failed)
	}
	if !failed.Until.Equal(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)) || failed.Metadata["outcome"] != "not_applied" {
		t.Errorf("%#v", failed)
	}
	if !errors.Is(err, ReasonMuted) || errors.Is(err, ReasonBanned) || status.Code(err) != codes.FailedPrecondition {
		t.Error("the error is not comparable")
	}
	item := ItemError(&typev1.ResultError{Code: 5, Reason: "NOT_FOUND", Field: "user_id", Message: "no such user"})
	if !errors.Is(item, ReasonNotFound) || item.Error() != "kith: NotFound NOT_FOUND no such user" || ItemError(nil) != nil {
		t.Errorf("%v", item)
	}
}

func TestSession(t *testing.T) {
	client, node := start(t, Config{}, func(r *request) error {
		r.SetHeader(metadata.Pairs("kith-session", "s"+string(rune('0'+r.number))))
		return r.SendMsg(&userv1.GetUserResponse{})
	})
	get := func(client *Client) { client.Users.GetUser(ctx, &userv1.GetUserRequest{UserId: 7}) }
	session := client.Session(7, "")
	get(session)
	get(session)
	later := client.Session(7, session.Export())
	get(later)
	get(client)
	for i, want := range []string{"", "s1", "s2"} {
		if got := node.tries()[i].header.Get("kith-session"); len(got) != 1 || got[0] != want {
			t.Errorf("call %d carried %q", i+1, got)
		}
	}
	last := node.tries()[3].header
	if last.Get("kith-session") != nil || last.Get("kith-acting-user") != nil || later.Export() != "s3" {
		t.Errorf("outside of the session: %v, and in it %q", last, later.Export())
	}
}

func TestSessionOfManyCalls(t *testing.T) {
	var open sync.WaitGroup
	open.Add(6)
	client, node := start(t, Config{}, func(r *request) error {
		r.SetHeader(metadata.Pairs("kith-session", "s"+string(rune('0'+r.number))))
		if r.number <= 6 {
			open.Done()
			open.Wait()
		}
		return r.SendMsg(&relationv1.FollowResponse{})
	})
	session := client.Session(7, "")
	var calls sync.WaitGroup
	for range 6 {
		calls.Go(func() { session.Relations.Follow(ctx, &relationv1.FollowRequest{UserId: 7}) })
	}
	calls.Wait()
	for range 3 {
		session.Relations.Follow(ctx, &relationv1.FollowRequest{UserId: 7})
	}
	carried := map[string]bool{}
	for i, count := range []int{4, 3, 1} {
		got := node.tries()[6+i].header.Get("kith-session")
		if len(got) != count {
			t.Errorf("call %d carried %q", 7+i, got)
		}
		for _, text := range got {
			carried[text] = true
		}
	}
	if len(carried) != 8 || session.Export() != "s9" {
		t.Errorf("carried %v, exported %q", carried, session.Export())
	}
}

func TestVersionIsWarnedAboutOnce(t *testing.T) {
	for version, want := range map[string]int{"": 1, "0": 1, strconv.Itoa(Contract): 0, "99": 0} {
		var log bytes.Buffer
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		client, _ := start(t, Config{}, func(r *request) error {
			if version != "" {
				r.SetHeader(metadata.Pairs("kith-contract", version))
			}
			return r.SendMsg(&userv1.GetUserResponse{})
		})
		for range 3 {
			client.Users.GetUser(ctx, &userv1.GetUserRequest{UserId: 7})
		}
		if got := strings.Count(log.String(), "older contract"); got != want {
			t.Errorf("version %q: %d warnings", version, got)
		}
	}
}

func TestForeignMethodIsNotRepeated(t *testing.T) {
	client, node := start(t, Config{}, func(*request) error { return failure(codes.Unavailable, "", 0) })
	err := client.Invoke(ctx, "/other.Service/Write", &userv1.GetUserRequest{}, &userv1.GetUserResponse{}, grpc.WaitForReady(true))
	if status.Code(err) != codes.Unavailable || len(node.tries()) != 1 {
		t.Errorf("%v after %d tries", err, len(node.tries()))
	}
}
