// Command push-worker sends a push for each message that a user has not received on any device. It posts
// {"key", "user", "conversation", "seq", "text"} to an address, or prints it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	kith "kith.example/client"
	messagev1 "kith.example/client/gen/kith/message/v1"
)

// push is what goes to the service that reaches devices. A message may be named twice: the key is the same then.
type push struct {
	Key          string `json:"key"`
	User         int64  `json:"user"`
	Conversation string `json:"conversation"`
	Seq          int64  `json:"seq"`
	Text         string `json:"text"`
}

func main() {
	to := flag.String("to", "", "post pushes to this address (default: print them)")
	file := flag.String("cursor", "cursor", "file that keeps the place between runs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *to, *file); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, to, file string) error {
	client, err := kith.Connect(kith.Config{})
	if err != nil {
		return err
	}
	defer client.Close()
	cursor, _ := os.ReadFile(file) // Without a file the worker begins now.
	request := &messagev1.WatchOfflineRequest{Cursor: string(cursor)}
	for response, err := range kith.Follow(ctx, client.Messages.WatchOffline, request) {
		if err != nil {
			return err
		}
		if response.GetMissed() {
			log.Print("messages from before the cursor's time got no push")
		}
		for _, message := range response.GetMessages() {
			for _, user := range message.GetUserIds() {
				if err := notify(ctx, client, to, user, message); err != nil {
					return err
				}
			}
		}
		// After the pushes: a crash before this line repeats them, with the same keys.
		if err := save(file, response.GetCursor()); err != nil {
			return err
		}
	}
	return nil
}

// notify reads the message as the user may read it now, and sends its push until that succeeds.
func notify(ctx context.Context, client *kith.Client, to string, user int64, message *messagev1.OfflineMessage) error {
	answer, err := client.Messages.PullBySeqs(ctx, &messagev1.PullBySeqsRequest{
		UserId: user, ConversationId: message.GetConversationId(), Seqs: []int64{message.GetSeq()},
	})
	if errors.Is(err, kith.ReasonNotFound) {
		return nil // The user has left, or is deleted.
	}
	if err != nil {
		return err
	}
	for _, found := range answer.GetMessages() {
		if found.GetRecall() != nil {
			continue
		}
		key := fmt.Sprintf("%s/%d/%d", found.GetConversationId(), found.GetSeq(), user)
		made, _ := json.Marshal(push{key, user, found.GetConversationId(), found.GetSeq(), string(found.GetBody())})
		for wait := time.Second; !send(to, made); wait = min(2*wait, time.Minute) {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// send reports whether the push was accepted.
func send(to string, made []byte) bool {
	if to == "" {
		fmt.Println(string(made))
		return true
	}
	response, err := (&http.Client{Timeout: 10 * time.Second}).Post(to, "application/json", bytes.NewReader(made))
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode < 300
}

// save replaces the file at once, so that a crash leaves the old cursor or the new one.
func save(file, cursor string) error {
	if err := os.WriteFile(file+".new", []byte(cursor), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
