package submit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/sensitive"
	"lksms/internal/platform/logtext"
)

// Refused is a submission that was refused.
type Refused struct {
	Raw    []byte // original request body; not necessarily valid JSON
	Status int
	Answer []byte // answer as JSON
}

// refusedRow is the row of a refused submission in the form that SubmissionsRefused reads.
type refusedRow struct {
	RequestID    string          `json:"request_id"`
	CompanyID    int64           `json:"company_id"`
	PhoneNumber  *string         `json:"phone_number"`
	Content      *string         `json:"content"`
	UseTemplate  *bool           `json:"use_template"`
	SourceIP     string          `json:"source_ip"`
	UserAgent    string          `json:"user_agent"`
	RequestData  json.RawMessage `json:"request_data"`
	ResponseData json.RawMessage `json:"response_data"`
	StatusCode   int             `json:"status_code"`
}

// LogRefused logs refused submissions with their answers (S0.14), in portions. If a portion fails, this portion and all later portions are not logged.
func (s *Service) LogRefused(ctx context.Context, origin Origin, all ...Refused) error {
	rows := make([]refusedRow, len(all))
	for i, one := range all {
		rows[i] = refusedRowOf(origin, one)
	}
	if len(rows) == 1 && !s.db.InTx(ctx) {
		_, err := s.refusals.Do(ctx, rows[0])
		return err
	}
	for portion := range slices.Chunk(rows, maxPortion) {
		if err := s.logRefused(ctx, portion); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) logRefused(ctx context.Context, rows []refusedRow) error {
	list, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("write refused submissions as JSON: %w", err)
	}
	if err := s.q.SubmissionsRefused(ctx, queueq.SubmissionsRefusedParams{Refused: list, Alone: !s.db.InTx(ctx)}); err != nil {
		return fmt.Errorf("log refused submissions: %w", err)
	}
	return nil
}

func refusedRowOf(origin Origin, one Refused) refusedRow {
	one.Raw = sensitive.MaskRequest(one.Raw)
	row := refusedRow{
		RequestID: origin.RequestID, CompanyID: origin.CompanyID, SourceIP: origin.SourceIP, UserAgent: logtext.Text(origin.UserAgent),
		RequestData: logtext.JSON(one.Raw), ResponseData: logtext.JSON(one.Answer), StatusCode: one.Status,
	}
	// Each column contains the member of the body with the same name, if the member has the right type.
	var said struct {
		PhoneNumber any             `json:"phone_number"`
		Content     any             `json:"content"`
		UseTemplate any             `json:"use_template"`
		TemplateNo  any             `json:"template_no"`
		Params      json.RawMessage `json:"params"`
	}
	if json.Unmarshal(row.RequestData, &said) == nil {
		row.PhoneNumber, row.Content = textOf(said.PhoneNumber), textOf(said.Content)
		if b, ok := said.UseTemplate.(bool); ok {
			row.UseTemplate = &b
		}
		if no, ok := said.TemplateNo.(string); ok && no != "" {
			params, isParams := Submission{TemplateNo: no, Params: said.Params}.logged()
			row.Content, row.UseTemplate = textOf(params), &isParams
		}
	}
	return row
}

func textOf(v any) *string {
	s, ok := v.(string)
	if !ok {
		return nil
	}
	s = logtext.Text(s)
	return &s
}
