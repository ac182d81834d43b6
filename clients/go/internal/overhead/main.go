// Command overhead measures the CPU time of a GetUser by the client over that of the bare stub, against the node at an
// address, as cargo xtask overhead does. It prints the median of the ratios as one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"slices"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	kith "kith.example/client"
	userv1 "kith.example/client/gen/kith/user/v1"
)

const (
	// rounds count. Those of both are interleaved, so that a slower machine slows both.
	rounds = 61
	// warmUp rounds come before them, in which connections are made and memory is found.
	warmUp = 6
	calls  = 400
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: overhead ADDRESS")
	}
	ratio, err := measure(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	json.NewEncoder(os.Stdout).Encode(map[string]float64{"go": math.Round(ratio*1000) / 1000})
}

func measure(address string) (float64, error) {
	client, err := kith.Connect(kith.Config{Addresses: []string{address}})
	if err != nil {
		return 0, err
	}
	defer client.Close()
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	user := &userv1.User{UserName: fmt.Sprint("go-", os.Getpid())}
	created, err := client.Users.CreateUser(context.Background(), &userv1.CreateUserRequest{User: user})
	if err != nil {
		return 0, err
	}
	request := &userv1.GetUserRequest{UserId: created.GetUser().GetUserId()}
	byClient := func() error {
		_, err := client.Users.GetUser(context.Background(), request)
		return err
	}
	stub := userv1.NewUserServiceClient(connection)
	byStub := func() error {
		// Each caller sets a deadline, which the client does by itself.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := stub.GetUser(ctx, request)
		return err
	}
	var ratios []float64
	for round := range warmUp + rounds {
		own, err := cpuOf(byClient)
		if err != nil {
			return 0, err
		}
		bare, err := cpuOf(byStub)
		if err != nil {
			return 0, err
		}
		if round >= warmUp {
			ratios = append(ratios, own/bare)
		}
	}
	slices.Sort(ratios)
	return ratios[rounds/2], nil
}

// cpuOf returns the CPU time of a round of calls.
func cpuOf(call func() error) (float64, error) {
	before, err := cpu()
	if err != nil {
		return 0, err
	}
	for range calls {
		if err := call(); err != nil {
			return 0, err
		}
	}
	after, err := cpu()
	return float64(after - before), err
}

// cpu returns the nanoseconds that all threads of this process have spent on a processor.
func cpu() (int64, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return usage.Utime.Nano() + usage.Stime.Nano(), err
}
