package kith

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	messagev1 "kith.example/client/gen/kith/message/v1"
	presencev1 "kith.example/client/gen/kith/presence/v1"
	typev1 "kith.example/client/gen/kith/type/v1"
	userv1 "kith.example/client/gen/kith/user/v1"
)

func message(seq int64) *messagev1.Delivery {
	return &messagev1.Delivery{What: &messagev1.Delivery_Message{Message: &messagev1.Message{ConversationId: "d7-8", Seq: seq}}}
}

func missed(from, to int64) *messagev1.Delivery {
	return &messagev1.Delivery{What: &messagev1.Delivery_Missed{Missed: &messagev1.Missed{ConversationId: "d7-8", FromSeq: from, ToSeq: to}}}
}

var reset = &messagev1.Delivery{What: &messagev1.Delivery_Reset_{Reset_: &messagev1.Reset{}}}
var live = &messagev1.Delivery{What: &messagev1.Delivery_Live{Live: &messagev1.Live{}}}

func response(cursor string, deliveries ...*messagev1.Delivery) *messagev1.ReceiveResponse {
	return &messagev1.ReceiveResponse{Cursor: cursor, Deliveries: deliveries}
}

func TestReceive(t *testing.T) {
	inBubble(t, "reset_comes_when_the_next_stream_has_begun", func(t *testing.T) {
		var log []string
		client, node := start(t, Config{}, func(r *request) error {
			if r.number == 1 {
				return r.SendMsg(response("c1", reset))
			}
			time.Sleep(time.Second)
			log = append(log, "begun")
			r.SendMsg(response("c2", live, message(9)))
			<-r.Context().Done()
			return nil
		})
		asked := &messagev1.ReceiveRequest{UserId: 7, Device: "phone"}
		for received, err := range client.Receive(ctx, State{Cursor: "old"}, asked) {
			if err != nil {
				t.Fatal(err)
			}
			if deliveries := received.Deliveries; len(deliveries) > 0 {
				log = append(log, fmt.Sprint(len(deliveries), deliveries[0].GetReset_() != nil), received.State.Cursor)
				break
			}
		}
		second := read(t, node.tries()[1], &messagev1.ReceiveRequest{})
		if fmt.Sprint(log) != "[begun 3 true c2]" || !second.GetNow() || second.GetCursor() != "" || second.GetDevice() != "phone" {
			t.Errorf("%v, and then %v", log, second)
		}
	})
	t.Run("missed_is_cut_to_what_is_new", func(t *testing.T) {
		client, _ := start(t, Config{}, func(r *request) error {
			r.SendMsg(response("c1", missed(1, 4), missed(3, 9), message(9), message(10)))
			<-r.Context().Done()
			return nil
		})
		state := State{Cursor: "c0", Positions: map[string]int64{"d7-8": 5}}
		for received, err := range client.Receive(ctx, state, &messagev1.ReceiveRequest{}) {
			if err != nil || len(received.Deliveries) != 2 {
				t.Fatal(received, err)
			}
			if first := received.Deliveries[0].GetMissed(); first.GetFromSeq() != 6 || first.GetToSeq() != 9 {
				t.Errorf("missed %v", first)
			}
			if received.State.Positions["d7-8"] != 10 || state.Positions["d7-8"] != 5 {
				t.Errorf("state %v, and that of the caller %v", received.State, state)
			}
			break
		}
	})
	t.Run("at_most_2000_positions", func(t *testing.T) {
		client, node := start(t, Config{}, func(*request) error { return failure(codes.NotFound, ReasonNotFound, 0) })
		positions := map[string]int64{}
		for i := range int64(2500) {
			positions[fmt.Sprintf("g%d", i)] = i
		}
		for _, err := range client.Receive(ctx, State{Positions: positions}, &messagev1.ReceiveRequest{}) {
			if !errors.Is(err, ReasonNotFound) {
				t.Fatal(err)
			}
		}
		if count := len(read(t, node.tries()[0], &messagev1.ReceiveRequest{}).GetPositions()); count != 2000 {
			t.Errorf("%d positions", count)
		}
	})
}

func TestFollow(t *testing.T) {
	inBubble(t, "continues_after_the_last_message_that_is_done", func(t *testing.T) {
		token := 0
		client, node := start(t, Config{Token: func(context.Context) (string, time.Duration, error) {
			token++
			return fmt.Sprint("t", token), time.Hour, nil
		}}, func(r *request) error {
			switch r.number {
			case 1:
				return failure(codes.Unauthenticated, ReasonCredentialsRefused, 0)
			case 2:
				r.SendMsg(&messagev1.WatchOfflineResponse{Cursor: "c1"})
				r.SendMsg(&messagev1.WatchOfflineResponse{Cursor: "c2"})
				return failure(codes.Unavailable, ReasonStopping, 200*time.Millisecond)
			case 3:
				return nil
			}
			r.SendMsg(&messagev1.WatchOfflineResponse{Cursor: "c3"})
			<-r.Context().Done()
			return nil
		})
		var cursors, asked []string
		for response, err := range Follow(ctx, client.Messages.WatchOffline, &messagev1.WatchOfflineRequest{Cursor: "c0"}) {
			if err != nil {
				t.Fatal(err)
			}
			if cursors = append(cursors, response.GetCursor()); response.GetCursor() == "c3" {
				break
			}
		}
		for _, try := range node.tries() {
			asked = append(asked, try.header.Get("authorization")[0]+" "+read(t, try, &messagev1.WatchOfflineRequest{}).GetCursor())
			if _, isSet := try.Context().Deadline(); isSet {
				t.Error("a stream has a deadline")
			}
		}
		if !slices.Equal(cursors, []string{"c1", "c2", "c3"}) ||
			!slices.Equal(asked, []string{"Bearer t1 c0", "Bearer t2 c0", "Bearer t2 c2", "Bearer t2 c2"}) {
			t.Errorf("got %v, asked %v", cursors, asked)
		}
	})
	t.Run("ends_with_the_context", func(t *testing.T) {
		client, _ := start(t, Config{}, func(r *request) error {
			r.SendMsg(&presencev1.WatchPresenceResponse{})
			<-r.Context().Done()
			return nil
		})
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var last error
		for _, err := range Follow(ctx, client.Presence.WatchPresence, &presencev1.WatchPresenceRequest{UserIds: []int64{7}}) {
			cancel()
			last = err
		}
		if !errors.Is(last, context.Canceled) {
			t.Error(last)
		}
	})
	t.Run("refused_twice", func(t *testing.T) {
		client, node := start(t, Config{Pause: 1}, func(*request) error { return failure(codes.Unauthenticated, ReasonCredentialsRefused, 0) })
		for _, err := range Follow(ctx, client.Messages.WatchOffline, &messagev1.WatchOfflineRequest{}) {
			if !errors.Is(err, ReasonCredentialsRefused) || len(node.tries()) > 2 {
				t.Errorf("%v after %d tries", err, len(node.tries()))
			}
		}
	})
}

func TestPages(t *testing.T) {
	t.Run("loop_that_ends_asks_for_no_further_page", func(t *testing.T) {
		client, node := start(t, Config{}, func(r *request) error {
			return r.SendMsg(&userv1.SearchUsersResponse{Users: []*userv1.User{{UserId: 1}, {UserId: 2}}, NextPageToken: "more"})
		})
		request := &userv1.SearchUsersRequest{Keyword: "Ann"}
		count := 0
		for _, err := range Pages(ctx, client.Users.SearchUsers, request, (*userv1.SearchUsersResponse).GetUsers) {
			if count++; err != nil || count == 3 {
				break
			}
		}
		if count != 3 || len(node.tries()) != 2 || request.GetPageToken() != "" {
			t.Errorf("%d users, %d pages, %v", count, len(node.tries()), request)
		}
	})
	t.Run("numbers_that_were_left_out", func(t *testing.T) {
		client, node := start(t, Config{}, func(r *request) error {
			asked := read(t, r, &messagev1.PullBySeqsRequest{}).GetSeqs()
			page := &messagev1.PullBySeqsResponse{Messages: []*messagev1.Message{{Seq: slices.Min(asked)}}, More: len(asked) > 1}
			return r.SendMsg(page)
		})
		var seqs []int64
		request := &messagev1.PullBySeqsRequest{ConversationId: "d7-8", Seqs: []int64{9, 3, 5}}
		for message, err := range Pages(ctx, client.Messages.PullBySeqs, request, (*messagev1.PullBySeqsResponse).GetMessages) {
			if err != nil {
				t.Fatal(err)
			}
			seqs = append(seqs, message.GetSeq())
		}
		if !slices.Equal(seqs, []int64{3, 5, 9}) || len(node.tries()) != 3 {
			t.Errorf("got %v in %d pages", seqs, len(node.tries()))
		}
	})
}

func TestBatch(t *testing.T) {
	client, node := start(t, Config{}, func(r *request) error {
		answer := &userv1.BatchGetUsersResponse{}
		for i, id := range read(t, r, &userv1.BatchGetUsersRequest{}).GetUserIds() {
			result := &userv1.UserResult{UserId: id, Result: &userv1.UserResult_User{User: &userv1.User{UserId: id}}}
			if i >= 900 || id == 2500 {
				result.Result = &userv1.UserResult_Error{Error: &typev1.ResultError{Code: 8, Reason: string(ReasonAnswerTooLarge)}}
			}
			answer.Results = append(answer.Results, result)
		}
		return r.SendMsg(answer)
	})
	var ids []int64
	for id := range int64(2500) {
		ids = append(ids, id+1)
	}
	answer, err := Batch(ctx, client.Users.BatchGetUsers, &userv1.BatchGetUsersRequest{UserIds: ids})
	if err != nil || len(answer.GetResults()) != 2500 {
		t.Fatal(len(answer.GetResults()), err)
	}
	for i, result := range answer.GetResults() {
		if got := result.GetUser().GetUserId(); got != int64(i+1) && (i != 2499 || !errors.Is(ItemError(result.GetError()), ReasonAnswerTooLarge)) {
			t.Fatalf("place %d has %d", i, got)
		}
	}
	if count := len(node.tries()); count < 4 || count > 6 {
		t.Errorf("asked %d times", count)
	}
	empty, err := Batch(ctx, client.Users.BatchGetUsers, &userv1.BatchGetUsersRequest{})
	if err != nil || len(empty.GetResults()) != 0 {
		t.Error(empty, err)
	}
}

func TestBatchThatFails(t *testing.T) {
	client, _ := start(t, Config{}, func(r *request) error {
		if r.number == 2 {
			return failure(codes.PermissionDenied, ReasonScopeMissing, 0)
		}
		answer := &messagev1.BatchSendResponse{}
		for range read(t, r, &messagev1.BatchSendRequest{}).GetMessages() {
			answer.Results = append(answer.Results, &messagev1.SendResult{})
		}
		return r.SendMsg(answer)
	})
	request := &messagev1.BatchSendRequest{Messages: make([]*messagev1.SendMessageRequest, 150)}
	for i := range request.Messages {
		request.Messages[i] = &messagev1.SendMessageRequest{To: &messagev1.SendMessageRequest_ConversationId{ConversationId: "d7-8"}}
	}
	answer, err := Batch(ctx, client.Messages.BatchSend, request)
	if !errors.Is(err, ReasonScopeMissing) || len(answer.GetResults()) != 100 {
		t.Errorf("%d results, %v", len(answer.GetResults()), err)
	}
}

func TestExportGoesOnAfterTheLastID(t *testing.T) {
	client, node := start(t, Config{}, func(r *request) error {
		if r.number == 1 {
			r.SendMsg(&userv1.ExportUsersResponse{Users: []*userv1.User{{UserId: 1}, {UserId: 2}}})
			return failure(codes.Internal, "", 0)
		}
		r.SendMsg(&userv1.ExportUsersResponse{})
		return r.SendMsg(&userv1.ExportUsersResponse{Users: []*userv1.User{{UserId: 3}}})
	})
	var ids []int64
	for page, err := range Follow(ctx, client.Users.ExportUsers, &userv1.ExportUsersRequest{}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, user := range page.GetUsers() {
			ids = append(ids, user.GetUserId())
		}
	}
	if !slices.Equal(ids, []int64{1, 2, 3}) || read(t, node.tries()[1], &userv1.ExportUsersRequest{}).GetAfterUserId() != 2 {
		t.Errorf("got %v", ids)
	}
}
