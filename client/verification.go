package client

import (
	"context"
	"net/http"

	api "lksms/gen/client"
)

// StartVerification sends a code to a person. The request names the person by PhoneNumber, Email or UserID. If the person has got too many codes, the error has the
// reason "recipient.limited", and the call is not repeated.
func (c *Client) StartVerification(ctx context.Context, request VerificationRequest, more ...CallOption) (*VerificationStarted, error) {
	key := idempotencyKey(more)
	params := &api.StartVerificationParams{IdempotencyKey: &key}
	return create[*VerificationStarted](ctx, c, key, 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.StartVerification(ctx, params, request)
	})
}

// CheckVerification checks the code that a person entered. The status of the outcome is [CodeIsRight] or [CodeIsWrong]. If the verification has ended, the error has
// the reason "verification.approved", "verification.expired", "verification.exhausted" or "verification.cancelled".
//
// CheckVerification is not repeated after a lost response: a wrong code would be counted twice, and a right code would find the verification approved.
func (c *Client) CheckVerification(ctx context.Context, verificationID, code string) (*VerificationOutcome, error) {
	return call[*VerificationOutcome](ctx, c, once, 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.CheckVerification(ctx, verificationID, api.VerificationCheckRequest{Code: code})
	})
}

// CheckNewestVerification works like CheckVerification with the newest verification of a person for a purpose.
func (c *Client) CheckNewestVerification(ctx context.Context, check VerificationCheck) (*VerificationOutcome, error) {
	return call[*VerificationOutcome](ctx, c, once, 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.CheckNewestVerification(ctx, check)
	})
}

// ResendVerification sends the code of a verification again. The code does not expire later.
func (c *Client) ResendVerification(ctx context.Context, verificationID string, person VerificationResend, more ...CallOption) (*VerificationStarted, error) {
	key := idempotencyKey(more)
	params := &api.ResendVerificationParams{IdempotencyKey: &key}
	return create[*VerificationStarted](ctx, c, key, 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.ResendVerification(ctx, verificationID, params, person)
	})
}

// CancelVerification cancels a pending verification. If a repeated attempt finds the verification cancelled, CancelVerification has succeeded.
func (c *Client) CancelVerification(ctx context.Context, verificationID string) error {
	attempts := 0
	_, err := call[nothing](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) {
		attempts++
		return c.api.CancelVerification(ctx, verificationID)
	})
	if attempts > 1 && Reason(err) == "verification.cancelled" {
		return nil
	}
	return err
}

// Verification returns a verification with the state of its message.
func (c *Client) Verification(ctx context.Context, verificationID string) (*Verification, error) {
	return call[*Verification](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetVerification(ctx, verificationID)
	})
}
