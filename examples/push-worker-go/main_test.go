package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	kith "kith.example/client"
	messagev1 "kith.example/client/gen/kith/message/v1"
	userv1 "kith.example/client/gen/kith/user/v1"
)

var ctx = context.Background()

// phone is the service that reaches devices. It refuses the first push.
type phone struct {
	mutex  sync.Mutex
	pushes []push
	tries  int
}

func (p *phone) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var got push
	json.NewDecoder(request.Body).Decode(&got)
	if p.tries++; p.tries == 1 {
		writer.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	p.pushes = append(p.pushes, got)
}

func (p *phone) texts() map[string]string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	texts := map[string]string{}
	for _, push := range p.pushes {
		texts[push.Key] = push.Text
	}
	return texts
}

// node starts a node over a folder. It returns its address and a function that kills it.
func node(t *testing.T, folder, port string) (string, func()) {
	t.Helper()
	ports := filepath.Join(folder, "ports.json")
	os.Remove(ports)
	kill := start(t, nil, os.Getenv("KITH"), "serve", "--port", port, "--operations-port", "0", "--ports-file", ports,
		"--data-dir", filepath.Join(folder, "data"), "--set", "messages.offline=true", "--exit-with-parent")
	var addresses struct{ Grpc string }
	eventually(t, "the node serves", func() bool {
		content, err := os.ReadFile(ports)
		return err == nil && json.Unmarshal(content, &addresses) == nil
	})
	return addresses.Grpc, kill
}

func start(t *testing.T, environment []string, program string, arguments ...string) (kill func()) {
	t.Helper()
	command := exec.Command(program, arguments...)
	command.Env, command.Stderr = append(os.Environ(), environment...), os.Stderr
	if err := command.Start(); err != nil {
		t.Fatalf("KITH must name the program: %v", err)
	}
	kill = sync.OnceFunc(func() { command.Process.Kill(); command.Wait() })
	t.Cleanup(kill)
	return kill
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func TestEveryMessageGetsItsPush(t *testing.T) {
	folder := t.TempDir()
	worker := filepath.Join(folder, "push-worker")
	if output, err := exec.Command("go", "build", "-o", worker, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	devices := &phone{}
	server := httptest.NewServer(devices)
	defer server.Close()
	address, killNode := node(t, folder, "0")
	cursor := filepath.Join(folder, "cursor")
	work := func() func() {
		return start(t, []string{"KITH_ADDR=http://" + address}, worker, "--to", server.URL, "--cursor", cursor)
	}
	client, err := kith.Connect(kith.Config{Addresses: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, id := range []int64{7, 8} {
		user := &userv1.User{UserId: id, UserName: fmt.Sprint("user", id)}
		if _, err := client.Users.CreateUser(ctx, &userv1.CreateUserRequest{User: user}); err != nil {
			t.Fatal(err)
		}
	}
	wanted := map[string]string{}
	send := func(text string) {
		t.Helper()
		sent, err := client.With(kith.As(7)).Messages.SendMessage(ctx, &messagev1.SendMessageRequest{
			To: &messagev1.SendMessageRequest_UserId{UserId: 8}, ContentType: "text/plain", Body: []byte(text),
		})
		if err != nil {
			t.Fatal(err)
		}
		wanted[fmt.Sprintf("d7-8/%d/8", sent.GetSeq())] = text
	}
	arrived := func() bool { return fmt.Sprint(devices.texts()) == fmt.Sprint(wanted) }

	killWorker := work()
	eventually(t, "the worker has a place", func() bool { _, err := os.Stat(cursor); return err == nil })
	send("to a worker that runs")
	eventually(t, "the first push", arrived)
	killWorker()
	send("while it is away")
	killWorker = work()
	eventually(t, "the push of a worker that was killed", arrived)
	killNode()
	address, _ = node(t, folder, address[strings.LastIndex(address, ":")+1:])
	send("after a restart of the node")
	eventually(t, "the push after a restart", arrived)
	killWorker()
}

// The command of the README starts the worker.
func TestREADME(t *testing.T) {
	content, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^    (KITH_ADDR=\S+ go run .*)$`).FindStringSubmatch(string(content))
	if command == nil {
		t.Fatal("the README has no command")
	}
	address, _ := node(t, t.TempDir(), "0")
	line := strings.Replace(command[1], "http://127.0.0.1:7600", "http://"+address, 1)
	cursor := filepath.Join(t.TempDir(), "cursor")
	shell := exec.Command("sh", "-c", "exec timeout 60 "+"env "+line+" --cursor "+cursor)
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { shell.Process.Signal(os.Interrupt); shell.Wait() }()
	eventually(t, "the worker has a place", func() bool { _, err := os.Stat(cursor); return err == nil })
}
