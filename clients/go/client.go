// Package kith is the Go client of Kith.
//
// A [Client] has one gRPC stub for each service of the contract. Every call of a stub carries the credential,
// the acting user and the session of its client, has a deadline, is repeated where that is safe, and returns
// its failure as an [*Error].
//
//	client, err := kith.Connect(kith.Config{Addresses: []string{"http://127.0.0.1:7600"}})
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	answer, err := client.Users.GetUser(ctx, &userv1.GetUserRequest{UserId: 7})
//	if errors.Is(err, kith.ReasonNotFound) { ... }
package kith

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // Without it grpc-go asks no node whether it serves.
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// Calls go to all nodes in turn, and to none that says it does not serve.
const serviceConfig = `{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":""}}`

// Config says how a client connects. Each field has a default.
type Config struct {
	// Addresses are the nodes to call, such as https://kith.example:7600. With https the nodes prove themselves
	// by certificates that the system trusts. All addresses need https, or none. Default: KITH_ADDR, separated
	// by commas, else http://127.0.0.1:7600.
	Addresses []string
	// Key is the key of a caller. Default: the first line of the file that KITH_API_KEY_FILE names. The file is
	// read again when the key is refused, so a key is changed without a restart.
	Key string
	// Token returns tokens of a user, who calls in place of a caller with a key.
	Token TokenFunc
	// Timeout is the time that a call may take if its context has no deadline, with all repetitions. Default
	// 5 s. Streams have no limit.
	Timeout time.Duration
	// Pause is the first pause before a call is repeated, if the node names none. Later pauses are longer. Default
	// 100 ms.
	Pause time.Duration
	// Insecure allows credentials to be sent in plaintext to other machines.
	Insecure bool
	// DialOptions take precedence over those of this package, such as [grpc.WithTransportCredentials] for a
	// certificate authority of your own.
	DialOptions []grpc.DialOption
}

// TokenFunc returns a token of a user and how long it is valid from now on. With 0 it is used until it is refused.
// The function is called before the first call, when 80 % of that time has passed, and once after a node has
// refused a token. It never runs twice at the same time.
type TokenFunc func(context.Context) (token string, left time.Duration, err error)

// Client calls the nodes of one cluster. It is safe for concurrent use. A process connects once: [Client.With]
// and [Client.Session] return clients that share the connections.
//
// A Client implements [grpc.ClientConnInterface], so stubs that were generated elsewhere work on it, too.
type Client struct {
	Services
	link       *link
	credential *credential
	acting     int64
	// session is nil for a client that remembers nothing.
	session *texts
}

// link is what all clients of one Connect share.
type link struct {
	Config
	conn     *grpc.ClientConn
	contract int
	isWarned atomic.Bool
	// checked is the second in which the version of a node was looked at last.
	checked atomic.Int64
	// spent is what repetitions have taken from their budget, in tenths.
	spent atomic.Int64
}

// Connect returns a client of a cluster. It does not wait for a connection: the first calls do.
func Connect(config Config) (*Client, error) {
	file := os.Getenv("KITH_API_KEY_FILE")
	if config.Token == nil && cmp.Or(config.Key, file) != "" {
		config.Token = func(context.Context) (_ string, _ time.Duration, err error) {
			content := []byte(config.Key)
			if config.Key == "" {
				content, err = os.ReadFile(file)
			}
			line, _, _ := strings.Cut(strings.TrimSpace(string(content)), "\n")
			return strings.TrimSpace(line), 0, err
		}
	}
	conn, err := config.dial()
	if err != nil {
		return nil, err
	}
	config.Timeout, config.Pause = cmp.Or(config.Timeout, 5*time.Second), cmp.Or(config.Pause, 100*time.Millisecond)
	client := Client{link: &link{Config: config, conn: conn, contract: Contract}}
	return client.With(Token(config.Token)), nil
}

// dial prepares the connections. The first call makes them.
func (config Config) dial() (*grpc.ClientConn, error) {
	if len(config.Addresses) == 0 {
		config.Addresses = strings.Split(cmp.Or(os.Getenv("KITH_ADDR"), "127.0.0.1:7600"), ",")
	}
	scheme, transport := "http://", insecure.NewCredentials()
	if strings.HasPrefix(config.Addresses[0], "https://") {
		scheme, transport = "https://", credentials.NewTLS(nil)
	}
	var nodes []resolver.Address
	for _, text := range config.Addresses {
		parsed, err := url.Parse(scheme + strings.TrimPrefix(strings.TrimSpace(text), scheme))
		if err != nil || parsed.Port() == "" {
			return nil, fmt.Errorf("kith: %q is not an address like %s127.0.0.1:7600", text, scheme)
		}
		host := parsed.Hostname()
		isLocal := host == "localhost" || net.ParseIP(host).IsLoopback()
		if config.Token != nil && scheme == "http://" && !isLocal && !config.Insecure {
			return nil, fmt.Errorf("kith: the credential would be sent to %s in plaintext: set Insecure to allow it", host)
		}
		nodes = append(nodes, resolver.Address{Addr: parsed.Host, ServerName: host})
	}
	// A name may have several addresses, which dns looks up again when one is lost. A list stays as it is.
	list := manual.NewBuilderWithScheme("kith")
	list.InitialState(resolver.State{Addresses: nodes})
	target := map[bool]string{true: "dns:///", false: "kith:///"}[len(nodes) == 1] + nodes[0].Addr
	pauses := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}
	return grpc.NewClient(target, append([]grpc.DialOption{
		grpc.WithTransportCredentials(transport), grpc.WithResolvers(list), grpc.WithDisableRetry(),
		grpc.WithDefaultServiceConfig(serviceConfig), grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: 5 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
	}, config.DialOptions...)...)
}

// Close closes the connections, also those of the clients that share them.
func (c *Client) Close() error { return c.link.conn.Close() }

// With returns a client whose calls have these options, such as [As].
func (c *Client) With(options ...grpc.CallOption) *Client {
	with := c.changed(options)
	with.Services = newServices(&with)
	return &with
}

// Session returns a client of one user that reads what it has written, on every node: each call carries what
// earlier answers said. User 0 keeps the acting user, or the user of the token.
//
// Exported is what [Client.Export] has returned elsewhere, such as in an earlier request of the same browser.
// It is empty for a new session.
func (c *Client) Session(user int64, exported string) *Client {
	session := &texts{known: strings.Split(exported, ",")}
	return c.With(callOption{change: func(with *Client) { with.acting, with.session = cmp.Or(user, c.acting), session }})
}

// Export returns the session as one text, for a cookie or the next service. [Client.Session] takes it.
func (c *Client) Export() string { return strings.Join(c.session.latest(math.MaxInt), ",") }

// As returns an option: a call is made for this user (metadata kith-acting-user).
func As(user int64) grpc.CallOption {
	return callOption{change: func(with *Client) { with.acting = user }}
}

// Token returns an option: a call carries tokens of a user, in place of a key and an acting user.
func Token(fetch TokenFunc) grpc.CallOption {
	made := &credential{fetch: fetch, turn: make(chan struct{}, 1)}
	return callOption{change: func(with *Client) { with.credential, with.acting = made, 0 }}
}

// callOption changes the client of one call.
type callOption struct {
	grpc.EmptyCallOption
	change func(*Client)
}

// changed returns a copy of the client, for a call with these options.
func (c *Client) changed(options []grpc.CallOption) Client {
	with := *c
	for _, option := range options {
		if own, ok := option.(callOption); ok {
			own.change(&with)
		}
	}
	return with
}

// credential has the value of the metadata authorization, when to replace it, and when it ends. Without these
// times it is kept until it is refused.
type credential struct {
	fetch TokenFunc
	// turn has room for the call whose turn it is.
	turn          chan struct{}
	current       string
	renewAt, ends time.Time
}

// value returns what a call sends, which is not what a node has refused. While no token can be fetched, the
// current one is used up to its end.
func (c *credential) value(ctx context.Context, refused string) (string, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return "", status.FromContextError(ctx.Err()).Err()
	}
	now := time.Now()
	if c.current != refused && (c.renewAt.IsZero() || now.Before(c.renewAt)) {
		return c.current, nil
	}
	token, left, err := c.fetch(ctx)
	if err != nil && (c.current == refused || now.After(c.ends)) {
		return "", &Error{Code: codes.Unauthenticated, Message: "no credential: " + err.Error(), cause: err}
	}
	if err == nil {
		c.current, c.renewAt, c.ends = "Bearer "+token, time.Time{}, time.Time{}
	}
	if err == nil && left > 0 {
		c.renewAt, c.ends = now.Add(left*8/10), now.Add(left)
	}
	return c.current, nil
}
