package kith

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	typev1 "kith.example/client/gen/kith/type/v1"
)

// Reason says why a call failed. The constants are those of docs/reference/errors.md; a node of a later version
// may send others. A Reason is a target for [errors.Is].
type Reason string

// Error returns the reason as text.
func (r Reason) Error() string { return string(r) }

// lost are the codes of an answer that did not arrive, if they come without a reason.
var lost = []codes.Code{codes.Unavailable, codes.Internal, codes.Unknown, codes.Canceled}

var causes = map[codes.Code]error{codes.Canceled: context.Canceled, codes.DeadlineExceeded: context.DeadlineExceeded}

// Error is the failure of a call, or of one item of a batch.
type Error struct {
	// Code is the code of gRPC.
	Code codes.Code
	// Reason is empty if the error does not come from a node.
	Reason Reason
	// Message is for people. Its words may change.
	Message string
	// Field names the field or metadata at fault.
	Field string
	// Outcome says what a failed write has changed. not_applied: nothing. unknown: it may have been applied, or may
	// still be; also if no node has answered. Repeat it with the same id.
	Outcome string
	// Until says when the state ends that forbids the call, such as a mute.
	Until time.Time
	// RetryDelay is how long to wait before a repetition. 0 if the node names no time.
	RetryDelay time.Duration
	// Metadata has what else the node says about the reason, such as scope or quota.
	Metadata map[string]string
	// RequestID is the request_id or client_message_id of a write: repeat it with this id if the outcome is unknown.
	RequestID string

	// cause is the error of a TokenFunc.
	cause error
}

// Error returns the code, the reason and the message in one line.
func (e *Error) Error() string {
	return fmt.Sprintf("kith: %s %s %s", e.Code, cmp.Or(string(e.Reason), "-"), e.Message)
}

// Is reports whether target is the reason of the error.
func (e *Error) Is(target error) bool { return e.Reason != "" && target == error(e.Reason) }

// Unwrap returns [context.Canceled], [context.DeadlineExceeded], or the error of a [TokenFunc].
func (e *Error) Unwrap() error { return cmp.Or(e.cause, causes[e.Code]) }

// GRPCStatus returns the status, so that the functions of the package status work on the error.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Code, e.Message) }

// ItemError returns the error of one item of a batch, or nil.
func ItemError(item *typev1.ResultError) error {
	if item == nil {
		return nil
	}
	made := &Error{Code: codes.Code(item.GetCode()), Message: item.GetMessage(), Field: item.GetField()}
	return made.explain(item.GetReason(), item.GetMetadata())
}

// toError returns the error of a call. An answer that was lost, while the caller still waits, is UNAVAILABLE.
func toError(ctx context.Context, err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	from := status.Convert(err)
	made := &Error{Code: from.Code(), Message: from.Message(), Outcome: "unknown"}
	for _, detail := range from.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == "kith" {
				_ = made.explain(detail.GetReason(), detail.GetMetadata())
			}
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				made.Field = cmp.Or(made.Field, violation.GetField())
			}
		case *errdetails.RetryInfo:
			made.RetryDelay = detail.GetRetryDelay().AsDuration()
		}
	}
	if made.Reason == "" && ctx.Err() == nil && slices.Contains(lost, made.Code) {
		made.Code = codes.Unavailable
	}
	return made
}

func (e *Error) explain(reason string, metadata map[string]string) *Error {
	e.Reason, e.Metadata, e.Outcome = Reason(reason), metadata, metadata["outcome"]
	e.Field = cmp.Or(e.Field, metadata["field"])
	e.Until, _ = time.Parse(time.RFC3339, metadata["until"])
	return e
}
