// Command trial sends messages to a cluster, and reads each on another node at once. The laboratory, which writes the
// task and judges what is printed, disturbs the cluster meanwhile.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"

	kith "kith.example/client"
	messagev1 "kith.example/client/gen/kith/message/v1"
)

type task struct {
	Addresses []string
	Chats     []struct{ From, To int64 }
	Messages  int
}

// line is printed for each message that is acknowledged, and for each call that has failed.
type line struct {
	Chat  int    `json:"chat"`
	N     int    `json:"n"`
	ID    string `json:"id,omitempty"`
	Seq   int64  `json:"seq,omitempty"`
	Read  bool   `json:"read"`
	Error string `json:"error,omitempty"`
}

func main() {
	var given task
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		log.Fatal(err)
	}
	// Messages go to all nodes in turn, and each conversation is read on one.
	sender, readers := connect(given.Addresses), []*kith.Client(nil)
	for _, address := range given.Addresses {
		readers = append(readers, connect([]string{address}))
	}
	lines, chats := make(chan line), sync.WaitGroup{}
	for chat, users := range given.Chats {
		reader := readers[chat%len(readers)]
		chats.Go(func() {
			session := sender.Session(users.From, "")
			for n := range given.Messages {
				next := line{Chat: chat, N: n, ID: fmt.Sprintf("m%d-%d", chat, n)}
				sent := answered(lines, next, session.Messages.SendMessage, &messagev1.SendMessageRequest{
					To: &messagev1.SendMessageRequest_UserId{UserId: users.To}, ClientMessageId: next.ID, ContentType: "text/plain",
				})
				next.Seq = sent.GetSeq()
				later := reader.Session(users.From, session.Export())
				page := answered(lines, next, later.Messages.History, &messagev1.HistoryRequest{
					ConversationId: sent.GetConversationId(), Limit: 1,
				})
				for _, last := range page.GetMessages() {
					next.Read = last.GetSeq() == next.Seq && last.GetClientMessageId() == next.ID
				}
				lines <- next
			}
		})
	}
	go func() { chats.Wait(); close(lines) }()
	for printed := range lines {
		json.NewEncoder(os.Stdout).Encode(printed)
	}
}

func connect(addresses []string) *kith.Client {
	client, err := kith.Connect(kith.Config{Addresses: addresses})
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// answered makes a call again until it has an answer.
func answered[Request, Answer any](
	lines chan<- line, failed line, call func(context.Context, Request, ...grpc.CallOption) (Answer, error), request Request,
) Answer {
	for {
		answer, err := call(context.Background(), request)
		if err == nil {
			return answer
		}
		lines <- line{Chat: failed.Chat, N: failed.N, Error: err.Error()}
		time.Sleep(100 * time.Millisecond)
	}
}
