//go:build conformance

package kith

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	messagev1 "kith.example/client/gen/kith/message/v1"
	userv1 "kith.example/client/gen/kith/user/v1"
)

// part is an object of a case, as ../conformance/README.md describes it.
type part map[string]json.RawMessage

// get returns a field of an object. Without it the value is that of its type.
func get[Value any](of part, name string) (value Value) {
	if err := json.Unmarshal(of[name], &value); of[name] != nil && err != nil {
		panic(fmt.Errorf("%s: %w", name, err))
	}
	return value
}

func milliseconds(of part, name string) time.Duration {
	return get[time.Duration](of, name) * time.Millisecond
}

// player plays one case.
type player struct {
	client        *Client
	sessions      sync.Map
	exported      string
	asked, warned int
}

func TestConformance(t *testing.T) {
	program := exec.Command(os.Getenv("KITH_SCRIPT"), "../conformance")
	input, _ := program.StdinPipe()
	output, _ := program.StdoutPipe()
	if err := program.Start(); err != nil {
		t.Fatalf("KITH_SCRIPT must name the program of the script: %v", err)
	}
	t.Cleanup(func() { input.Close(); program.Wait() })
	url, _ := bufio.NewReader(output).ReadString('\n')
	ask := func(method, path string, answer any) {
		request, _ := http.NewRequest(method, strings.TrimSpace(url)+path, nil)
		response, err := http.DefaultClient.Do(request)
		if err != nil || json.NewDecoder(response.Body).Decode(answer) != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		response.Body.Close()
	}
	var names []string
	for ask("GET", "/cases", &names); len(names) > 0; names = names[1:] {
		var begun, end part
		ask("POST", "/begin/"+names[0], &begun)
		given := get[part](begun, "case")
		if get[string](given, "for") == "chat" {
			continue
		}
		t.Run(names[0], func(t *testing.T) {
			err := play(get[string](begun, "address"), given)
			ask("POST", fmt.Sprintf("/end/%s", begun["run"]), &end)
			if wrong := get[[]string](end, "wrong"); err != nil || len(wrong) > 0 {
				t.Error(err, wrong)
			}
		})
	}
}

func play(address string, given part) error {
	p, options := &player{}, get[part](given, "client")
	slog.SetDefault(slog.New(slog.NewTextHandler(p, nil)))
	config := Config{
		Addresses: []string{address}, Key: cmp.Or(get[string](options, "key"), "script-key"),
		Timeout: milliseconds(options, "deadline_ms"), Pause: cmp.Or(milliseconds(options, "pause_ms"), time.Millisecond),
		DialOptions: []grpc.DialOption{grpc.WithDisableHealthCheck()},
	}
	if tokens := get[[]part](options, "tokens"); tokens != nil {
		config.Token = func(context.Context) (string, time.Duration, error) {
			p.asked++
			token := tokens[min(p.asked, len(tokens))-1]
			return get[string](token, "token"), milliseconds(token, "expires_in_ms"), nil
		}
	}
	client, err := Connect(config)
	if err != nil {
		return err
	}
	defer client.Close()
	client.link.contract = cmp.Or(get[int](options, "contract"), client.link.contract)
	p.client = client.With(As(get[int64](options, "acting_user")))
	for i, step := range get[[]part](given, "steps") {
		if err := p.carryOut(step); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

// Write counts the lines of the log.
func (p *player) Write(line []byte) (int, error) { p.warned++; return len(line), nil }

func (p *player) carryOut(s part) (err error) {
	ctx, client := context.Background(), p.client
	if s["deadline_ms"] != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, milliseconds(s, "deadline_ms"))
		defer cancel()
	}
	if s["session"] != nil {
		session, _ := p.sessions.LoadOrStore(get[string](s, "session"), p.client.Session(0, ""))
		client = session.(*Client)
	}
	if s["acting_user"] != nil {
		client = client.With(As(get[int64](s, "acting_user")))
	}
	switch time.Sleep(milliseconds(s, "wait_ms")); {
	case s["together"] != nil:
		parts, results := get[[]part](s, "together"), make(chan error)
		for _, part := range parts {
			go func() { results <- p.carryOut(part) }()
		}
		for range parts {
			err = errors.Join(err, <-results)
		}
	case s["export"] != nil:
		session, _ := p.sessions.Load(get[string](s, "export"))
		p.exported = session.(*Client).Export()
	case s["import"] != nil:
		p.sessions.Store(get[string](s, "import"), p.client.Session(0, p.exported))
	case s["tokens_asked"] != nil:
		err = same("tokens asked", get[int](s, "tokens_asked"), p.asked)
	case s["warned"] != nil:
		err = same("warned", get[int](s, "warned"), p.warned)
	case s["receive"] != nil:
		err = s.receive(ctx, client)
	case s["wait_ms"] == nil:
		err = s.call(ctx, client)
	}
	return err
}

func same(what string, want, got any) error {
	if fmt.Sprint(want) != fmt.Sprint(got) {
		return fmt.Errorf("%s: want %v, got %v", what, want, got)
	}
	return nil
}

// check compares a failure with that of a step.
func (s part) check(err error) (wrong error) {
	want, got := get[map[string]any](s, "error"), &Error{}
	if errors.As(err, &got); want == nil {
		return err
	}
	fields := map[string]any{
		"code": strings.ToLower(got.Code.String()), "reason": got.Reason, "field": got.Field, "outcome": got.Outcome,
		"until": got.Until.Format(time.RFC3339), "retry_ms": got.RetryDelay.Milliseconds(),
	}
	want["code"] = strings.ReplaceAll(want["code"].(string), "_", "")
	for name := range want {
		wrong = errors.Join(wrong, same(name, want[name], fields[name]))
	}
	return wrong
}

func create(of protoreflect.MessageDescriptor, content json.RawMessage) proto.Message {
	found, _ := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	message := found.New().Interface()
	if err := protojson.Unmarshal(content, message); len(content) > 0 && err != nil {
		panic(err)
	}
	return message
}

func itemsOf(page proto.Message) (items []proto.Message) {
	for list, i := listOf(page), 0; i < list.Len(); i++ {
		items = append(items, list.Get(i).Message().Interface())
	}
	return items
}

func (s part) call(ctx context.Context, client *Client) (err error) {
	name := get[string](s, "call") + get[string](s, "stream") + get[string](s, "pages") + get[string](s, "batch")
	found, _ := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(name, "/", ".")))
	method := found.(protoreflect.MethodDescriptor)
	of, wanted := method.Output(), append(get[[]json.RawMessage](s, "answers"), get[[]json.RawMessage](s, "items")...)
	invoke := func(ctx context.Context, request proto.Message, options ...grpc.CallOption) (proto.Message, error) {
		reply := create(method.Output(), nil)
		return reply, client.Invoke(ctx, "/"+name, request, reply, options...)
	}
	var got, want []proto.Message
	keep := func(message proto.Message, failure error) bool {
		if err = failure; err == nil {
			got = append(got, message)
		}
		return err == nil && len(got) != get[int](s, "take")
	}
	switch request := create(method.Input(), s["request"]).(type) {
	case *messagev1.WatchOfflineRequest:
		for message, failure := range Follow(ctx, client.Messages.WatchOffline, request) {
			if !keep(message, failure) {
				break
			}
		}
	case *userv1.ExportUsersRequest:
		for page, failure := range Follow(ctx, client.Users.ExportUsers, request) {
			got, err = append(got, itemsOf(page)...), failure
		}
	case *userv1.BatchGetUsersRequest:
		keep(Batch(ctx, client.Users.BatchGetUsers, request))
	default:
		if s["pages"] == nil {
			keep(invoke(ctx, request))
		} else {
			Pages(ctx, invoke, request, itemsOf)(keep)
		}
	}
	if s["pages"] != nil {
		of = of.Fields().Get(0).Message()
	}
	if s["answer"] != nil {
		wanted = append(wanted, s["answer"])
	}
	for _, content := range wanted {
		want = append(want, create(of, content))
	}
	return errors.Join(s.check(err), same("messages", want, got))
}

func (s part) receive(ctx context.Context, client *Client) error {
	messages, missed := []string(nil), []string(nil)
	resets, end, failure := 0, State{}, error(nil)
	enough := len(get[[]string](s, "messages")) + len(get[[]string](s, "missed")) + get[int](s, "resets")
	request := &messagev1.ReceiveRequest{UserId: get[struct{ UserId int64 }](s, "receive").UserId}
	for received, err := range client.Receive(ctx, get[State](s, "state"), request) {
		for _, delivery := range received.Deliveries {
			if m := delivery.GetMessage(); m != nil {
				messages = append(messages, fmt.Sprintf("%s/%d", m.GetConversationId(), m.GetSeq()))
			} else if m := delivery.GetMissed(); m != nil {
				missed = append(missed, fmt.Sprintf("%s/%d-%d", m.GetConversationId(), m.GetFromSeq(), m.GetToSeq()))
			} else if delivery.GetReset_() != nil {
				resets++
			}
		}
		end, failure = received.State, err
		if s["error"] == nil && len(messages)+len(missed)+resets >= enough {
			break
		}
	}
	return errors.Join(s.check(failure), same("messages", get[[]string](s, "messages"), messages),
		same("missed", get[[]string](s, "missed"), missed), same("resets", get[int](s, "resets"), resets),
		same("end", get[State](s, "end"), end))
}
