package remote

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"lksms/client"
	"lksms/internal/platform/config"
)

// VerifyCmd is the command `lksms verify`.
type VerifyCmd struct {
	Start  verifyStartCmd  `cmd:"" help:"Send a code to a person."`
	Check  verifyCheckCmd  `cmd:"" help:"Check the code that a person entered. The exit status is 0 if it is right, 4 if it is wrong and another code can be checked, and 1 if the verification has ended, also by this code."`
	Resend verifyResendCmd `cmd:"" help:"Send the code of a verification again."`
	Cancel verifyCancelCmd `cmd:"" help:"Cancel a verification: its code is no longer valid."`
	Show   verifyShowCmd   `cmd:"" help:"Show a verification with the state of its message."`
}

// errCode is the error of a wrong code, after which more codes can be checked. The exit status is 4.
var errCode = errors.New("the code is wrong")

type verifyStartCmd struct {
	Number string `arg:"" optional:"" help:"Phone number. Not with --email and --user-id."`

	Purpose        string `required:"" help:"What the code is for, such as login."`
	Email          string `help:"E-mail address of the person."`
	UserID         string `name:"user-id" help:"Contact who gets the code."`
	Channel        string `placeholder:"sms" help:"Channel for --user-id: sms, email, or another one."`
	DefaultRegion  string `name:"default-region" placeholder:"REGION" help:"Region (ISO 3166-1) of a number without a country code, such as ID. Default: that of the company."`
	Length         *int   `help:"Number of digits."`
	TTLSeconds     *int   `name:"ttl-seconds" help:"Seconds until the code expires."`
	Template       string `placeholder:"NO" help:"Template of the text, by its template_no. It needs the placeholder {code}."`
	Language       string `help:"Language of the text, such as zh."`
	Sign           string `help:"Signature, placed before the text."`
	AppHash        string `name:"app-hash" help:"Hash of the Android app that fills in the code."`
	Domain         string `help:"Domain for which browsers fill in the code."`
	IdempotencyKey string `name:"idempotency-key" help:"Your name for this command: repeated within 24 hours, it sends no second code."`
	verifyClient
	DryRun dryRun `embed:""`
	Remote Remote `embed:""`
}

// verifyClient contains the flags that limit codes for the client of the person.
type verifyClient struct {
	ClientIP string `name:"client-ip" help:"IP address of the person's client. Codes are limited for each address."`
	Device   string `help:"Id of the person's device. Codes are limited for each device."`
}

func (c *verifyStartCmd) Run(ctx context.Context, env config.Remote) error {
	if c.Number == "" && c.Email == "" && c.UserID == "" {
		return Usage("give a phone number, --email or --user-id")
	}
	caller, ctx, cancel, err := c.Remote.open(ctx, env, c.DryRun.options()...)
	if err != nil {
		return err
	}
	defer cancel()
	started, err := caller.StartVerification(ctx, client.VerificationRequest{
		PhoneNumber: optional(c.Number), Email: optional(c.Email), UserID: optional(c.UserID), Channel: optional(c.Channel), Purpose: c.Purpose,
		DefaultRegion: optional(c.DefaultRegion), Length: c.Length, TTLSeconds: c.TTLSeconds, TemplateNo: optional(c.Template),
		Language: optional(c.Language), Sign: optional(c.Sign), AppHash: optional(c.AppHash), Domain: optional(c.Domain),
		ClientIP: optional(c.ClientIP), Device: optional(c.Device),
	}, keyOption(c.IdempotencyKey)...)
	if err != nil {
		return c.DryRun.done(caller, InTime(ctx, err))
	}
	return caller.showStarted(started)
}

func (c *caller) showStarted(v *client.VerificationStarted) error {
	return c.show(v, func() record {
		return record{{"verification", v.VerificationID}, {"task", v.TaskID}, {"expires", local(&v.ExpiresAt)}, {"resend after", local(&v.ResendAfter)}}
	})
}

type verifyArg struct {
	VerificationID string `arg:"" name:"verification_id" help:"The verification."`
}

type verifyCheckCmd struct {
	verifyArg
	Code   string `arg:"" help:"Code that the person entered; - reads it from standard input, where no other user of the machine sees it."`
	Remote Remote `embed:""`
}

func (c *verifyCheckCmd) Run(ctx context.Context, env config.Remote) error {
	code, err := readText(c.Code)
	switch {
	case err != nil:
		return err
	case code == "":
		return Usage("the code is empty")
	}
	caller, ctx, cancel, err := c.Remote.open(ctx, env)
	if err != nil {
		return err
	}
	defer cancel()
	checked, err := caller.CheckVerification(ctx, c.VerificationID, code)
	if err != nil {
		return InTime(ctx, err)
	}
	err = caller.show(checked, func() record {
		return record{{"verification", checked.VerificationID}, {"status", string(checked.Status)}, {"attempts left", strconv.Itoa(checked.AttemptsLeft)}}
	})
	if err == nil && checked.Status != client.CodeIsRight {
		err = fmt.Errorf("%w; attempts left: %d", errCode, checked.AttemptsLeft)
	}
	return err
}

type verifyResendCmd struct {
	verifyArg
	verifyClient
	IdempotencyKey string `name:"idempotency-key" help:"Your name for this command: repeated within 24 hours, it sends nothing more."`
	DryRun         dryRun `embed:""`
	Remote         Remote `embed:""`
}

func (c *verifyResendCmd) Run(ctx context.Context, env config.Remote) error {
	caller, ctx, cancel, err := c.Remote.open(ctx, env, c.DryRun.options()...)
	if err != nil {
		return err
	}
	defer cancel()
	person := client.VerificationResend{ClientIP: optional(c.ClientIP), Device: optional(c.Device)}
	started, err := caller.ResendVerification(ctx, c.VerificationID, person, keyOption(c.IdempotencyKey)...)
	if err != nil {
		return c.DryRun.done(caller, InTime(ctx, err))
	}
	return caller.showStarted(started)
}

type verifyCancelCmd struct {
	verifyArg
	DryRun dryRun `embed:""`
	Remote Remote `embed:""`
}

func (c *verifyCancelCmd) Run(ctx context.Context, env config.Remote) error {
	caller, ctx, cancel, err := c.Remote.open(ctx, env, c.DryRun.options()...)
	if err != nil {
		return err
	}
	defer cancel()
	if err := caller.CancelVerification(ctx, c.VerificationID); err != nil {
		return c.DryRun.done(caller, InTime(ctx, err))
	}
	return caller.showVerification(ctx, c.VerificationID)
}

type verifyShowCmd struct {
	verifyArg
	Remote Remote `embed:""`
}

func (c *verifyShowCmd) Run(ctx context.Context, env config.Remote) error {
	caller, ctx, cancel, err := c.Remote.open(ctx, env)
	if err != nil {
		return err
	}
	defer cancel()
	return caller.showVerification(ctx, c.VerificationID)
}

func (c *caller) showVerification(ctx context.Context, id string) error {
	v, err := c.Verification(ctx, id)
	if err != nil {
		return InTime(ctx, err)
	}
	return c.show(v, func() record {
		all := record{
			{"verification", v.VerificationID}, {"status", string(v.Status)}, {"purpose", v.Purpose}, {"channel", v.Channel},
			{"attempts left", strconv.Itoa(v.AttemptsLeft)}, {"tasks", strings.Join(v.TaskIds, ", ")},
		}
		if v.TaskStatus != nil {
			all = append(all, [2]string{"message", statusName(*v.TaskStatus)})
		}
		return append(all, record{
			{"delivery", text(v.Delivery)}, {"created", local(&v.CreatedAt)}, {"expires", local(&v.ExpiresAt)}, {"ended", local(v.EndedAt)},
			{"replaced by", text(v.ReplacedBy)},
		}...)
	})
}
