//! m87-bpmn
