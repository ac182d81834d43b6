package kith

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	userv1 "kith.example/client/gen/kith/user/v1"
)

// certificate is that of 127.0.0.1. The system trusts it in these tests.
var certificate tls.Certificate

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	for _, name := range []string{"KITH_ADDR", "KITH_API_KEY_FILE"} {
		os.Unsetenv(name)
	}
	folder, err := os.MkdirTemp("", "kith")
	if err != nil {
		panic(err)
	}
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	encoded, _ := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	certificate = tls.Certificate{Certificate: [][]byte{encoded}, PrivateKey: key}
	file := filepath.Join(folder, "roots.pem")
	os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: encoded}), 0o600)
	os.Setenv("SSL_CERT_FILE", file)
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// listen serves a fake node on a port.
func listen(t *testing.T, options ...grpc.ServerOption) (address string, node *fake) {
	node = &fake{answer: func(r *request) error { return r.SendMsg(&userv1.GetUserResponse{}) }}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(append(options, grpc.UnknownServiceHandler(node.serve), rawCodec)...)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return listener.Addr().String(), node
}

func getUser(t *testing.T, client *Client, options ...grpc.CallOption) error {
	t.Helper()
	_, err := client.Users.GetUser(ctx, &userv1.GetUserRequest{UserId: 7}, options...)
	return err
}

func TestAddresses(t *testing.T) {
	first, one := listen(t)
	second, two := listen(t)
	t.Setenv("KITH_ADDR", "http://"+first+", "+second)
	client, err := Connect(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	calls := func(node *fake) (count int) {
		for _, try := range node.tries() {
			if strings.HasSuffix(try.method, "/GetUser") {
				count++
			}
		}
		return count
	}
	for end := time.Now().Add(10 * time.Second); calls(one) == 0 || calls(two) == 0; {
		if err := getUser(t, client); err != nil || time.Now().After(end) {
			t.Fatalf("%d and %d calls, error %v", calls(one), calls(two), err)
		}
	}
	for _, wrong := range []string{"ftp://127.0.0.1:7600", "127.0.0.1", "https:/x", "http://"} {
		if client, err := Connect(Config{Addresses: []string{wrong}}); err == nil {
			client.Close()
			t.Errorf("%q is taken", wrong)
		}
	}
}

func TestTLSByTheRootsOfTheSystem(t *testing.T) {
	address, node := listen(t, grpc.Creds(credentials.NewServerTLSFromCert(&certificate)))
	client, err := Connect(Config{Addresses: []string{"https://" + address}, Key: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := getUser(t, client); err != nil {
		t.Fatal(err)
	}
	if last := node.tries()[len(node.tries())-1].header.Get("authorization"); len(last) != 1 || last[0] != "Bearer secret" {
		t.Errorf("carried %q", last)
	}
}

func TestPlaintextToAnotherMachine(t *testing.T) {
	elsewhere := Config{Addresses: []string{"http://10.0.0.1:7600"}, Key: "secret"}
	if _, err := Connect(elsewhere); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a key is sent in plaintext: %v", err)
	}
	allowed := elsewhere
	allowed.Insecure = true
	without := Config{Addresses: elsewhere.Addresses}
	for _, config := range []Config{allowed, without} {
		client, err := Connect(config)
		if err != nil {
			t.Fatal(err)
		}
		client.Close()
	}
}

func TestKeyFileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	os.WriteFile(file, []byte("old\nolder\n"), 0o600)
	t.Setenv("KITH_API_KEY_FILE", file)
	client, node := start(t, Config{}, func(r *request) error {
		if r.header.Get("authorization")[0] != "Bearer new" {
			return failure(codes.Unauthenticated, ReasonCredentialsRefused, 0)
		}
		return r.SendMsg(&userv1.GetUserResponse{})
	})
	if err := getUser(t, client); !errors.Is(err, ReasonCredentialsRefused) || len(node.tries()) != 1 {
		t.Errorf("%v after %d tries", err, len(node.tries()))
	}
	os.WriteFile(file, []byte("new\n"), 0o600)
	if err := getUser(t, client); err != nil {
		t.Error(err)
	}
}

func TestCallersOfACall(t *testing.T) {
	client, node := start(t, Config{Key: "k"}, func(r *request) error { return r.SendMsg(&userv1.GetUserResponse{}) })
	token := Token(func(context.Context) (string, time.Duration, error) { return "t", 0, nil })
	for i, options := range [][]grpc.CallOption{nil, {As(8)}, {As(8), token}} {
		if err := getUser(t, client, options...); err != nil {
			t.Fatal(err)
		}
		if err := getUser(t, client.With(options...)); err != nil {
			t.Fatal(err)
		}
		for _, try := range node.tries()[2*i:] {
			got := strings.Join(append(try.header.Get("authorization"), try.header.Get("kith-acting-user")...), " ")
			if want := []string{"Bearer k", "Bearer k 8", "Bearer t"}[i]; got != want {
				t.Errorf("carried %q, want %q", got, want)
			}
		}
	}
}

func TestTokens(t *testing.T) {
	accept := func(r *request) error { return r.SendMsg(&userv1.GetUserResponse{}) }
	inBubble(t, "renewed_at_80_percent_and_used_to_its_end", func(t *testing.T) {
		asked := 0
		client, _ := start(t, Config{Token: func(context.Context) (string, time.Duration, error) {
			asked++
			if asked > 1 {
				return "", 0, errors.New("the issuer is away")
			}
			return "t1", 10 * time.Minute, nil
		}}, accept)
		for _, want := range []struct {
			wait  time.Duration
			asked int
			fails bool
		}{{0, 1, false}, {479 * time.Second, 1, false}, {2 * time.Second, 2, false}, {120 * time.Second, 3, true}} {
			time.Sleep(want.wait)
			if err := getUser(t, client); (err != nil) != want.fails || asked != want.asked {
				t.Errorf("asked %d times, error %v, want %v", asked, err, want)
			}
		}
	})
	inBubble(t, "fetched_by_one_call_at_a_time", func(t *testing.T) {
		asked := 0
		client, _ := start(t, Config{Token: func(context.Context) (string, time.Duration, error) {
			asked++
			time.Sleep(time.Second)
			return "t1", time.Hour, nil
		}}, accept)
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				if err := getUser(t, client); err != nil {
					t.Error(err)
				}
			})
		}
		if calls.Wait(); asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
	t.Run("failure_is_that_of_the_callback", func(t *testing.T) {
		away := errors.New("the issuer is away")
		client, node := start(t, Config{Token: func(context.Context) (string, time.Duration, error) { return "", 0, away }}, accept)
		if err := getUser(t, client); !errors.Is(err, away) || len(node.tries()) != 0 {
			t.Errorf("%v", err)
		}
	})
}
