package audience

import (
	"context"
	"time"

	"lksms/gen/api"
	"lksms/internal/audience/verification"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
)

// StartVerification sends a code.
func (h *Handlers) StartVerification(ctx context.Context, req api.StartVerificationRequestObject) (api.StartVerificationResponseObject, error) {
	x, b := gate.Of(ctx), req.Body
	started, err := h.services.Verifications.Start(ctx, verification.Request{
		Person: verification.Person{
			PhoneNumber: b.PhoneNumber, Email: b.Email, UserID: b.UserID, Region: optional.Value(b.DefaultRegion), Channel: optional.Value(b.Channel),
		},
		Purpose: b.Purpose, Length: optional.Value(b.Length), TTL: time.Duration(optional.Value(b.TTLSeconds)) * time.Second,
		Client: verification.Client{IP: optional.Value(b.ClientIP), Device: optional.Value(b.Device)},
		Options: verification.Options{
			TemplateNo: optional.Value(b.TemplateNo), Language: optional.Value(b.Language), Sign: optional.Value(b.Sign),
			AppHash: optional.Value(b.AppHash), Domain: optional.Value(b.Domain),
		},
		Raw: x.Body.Raw,
	}, x.Origin)
	if err != nil {
		return nil, err
	}
	return api.StartVerification200JSONResponse{Code: convert.OK, Message: convert.Success, Data: startedOf(ctx, started)}, nil
}

// ResendVerification sends the code of a verification again.
func (h *Handlers) ResendVerification(ctx context.Context, req api.ResendVerificationRequestObject) (api.ResendVerificationResponseObject, error) {
	x := gate.Of(ctx)
	client := verification.Client{}
	if b := req.Body; b != nil {
		client.IP, client.Device = optional.Value(b.ClientIP), optional.Value(b.Device)
	}
	started, err := h.services.Verifications.Resend(ctx, req.VerificationID, client, x.Body.Raw, x.Origin)
	if err != nil {
		return nil, err
	}
	return api.ResendVerification200JSONResponse{Code: convert.OK, Message: convert.Success, Data: startedOf(ctx, started)}, nil
}

func startedOf(ctx context.Context, started verification.Started) api.VerificationStarted {
	gate.Of(ctx).AddToLog("verification_id", started.ID, "task_id", started.TaskID)
	return api.VerificationStarted{
		VerificationID: started.ID, Status: api.VerificationPending, ExpiresAt: started.ExpiresAt, ResendAfter: started.ResendAfter, TaskID: started.TaskID,
	}
}

// CheckVerification checks a code of a verification.
func (h *Handlers) CheckVerification(ctx context.Context, req api.CheckVerificationRequestObject) (api.CheckVerificationResponseObject, error) {
	checked, err := h.services.Verifications.Check(ctx, gate.Of(ctx).Origin.CompanyID, req.VerificationID, req.Body.Code)
	if err != nil {
		return nil, err
	}
	return api.CheckVerification200JSONResponse{VerificationCheckedJSONResponse: checkedOf(ctx, checked)}, nil
}

// CheckNewestVerification checks a code of the newest verification of a person.
func (h *Handlers) CheckNewestVerification(ctx context.Context, req api.CheckNewestVerificationRequestObject) (api.CheckNewestVerificationResponseObject, error) {
	b := req.Body
	checked, err := h.services.Verifications.CheckOf(ctx, gate.Of(ctx).Origin.CompanyID, verification.Person{
		PhoneNumber: b.PhoneNumber, Email: b.Email, UserID: b.UserID, Region: optional.Value(b.DefaultRegion), Channel: optional.Value(b.Channel),
	}, b.Purpose, b.Code)
	if err != nil {
		return nil, err
	}
	return api.CheckNewestVerification200JSONResponse{VerificationCheckedJSONResponse: checkedOf(ctx, checked)}, nil
}

func checkedOf(ctx context.Context, checked verification.Checked) api.VerificationCheckedJSONResponse {
	gate.Of(ctx).AddToLog("verification_id", checked.ID, "outcome", checked.Status)
	return api.VerificationCheckedJSONResponse{Code: convert.OK, Message: convert.Success, Data: api.VerificationOutcome{
		VerificationID: checked.ID, Status: api.VerificationOutcomeStatus(checked.Status), AttemptsLeft: checked.ChecksLeft,
	}}
}

// GetVerification returns a verification with the state of its message.
func (h *Handlers) GetVerification(ctx context.Context, req api.GetVerificationRequestObject) (api.GetVerificationResponseObject, error) {
	v, err := h.services.Verifications.Get(ctx, caller.Viewer(ctx), req.VerificationID)
	if err != nil {
		return nil, err
	}
	data := api.VerificationView{
		VerificationID: v.VerificationID, CompanyNo: v.CompanyNo, Status: api.VerificationStatus(v.Status), Purpose: v.Purpose, Channel: v.Channel, AttemptsLeft: v.ChecksLeft(),
		CreatedAt: v.CreatedAt, ExpiresAt: v.ExpiresAt, EndedAt: v.EndedAt, ReplacedBy: optional.NonZero(v.ReplacedBy),
		TaskIds: v.TaskIds,
	}
	if v.Task != nil {
		data.TaskStatus, data.Delivery = new(api.TaskStatus(v.Task.Status)), convert.Delivery(v.Task.Delivery)
	}
	return api.GetVerification200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
}

// CancelVerification ends a verification.
func (h *Handlers) CancelVerification(ctx context.Context, req api.CancelVerificationRequestObject) (api.CancelVerificationResponseObject, error) {
	origin := gate.Of(ctx).Origin
	err := h.services.Verifications.Cancel(ctx, origin.CompanyID, req.VerificationID, origin.User)
	return api.CancelVerification200JSONResponse{DoneJSONResponse: convert.Done()}, err
}
