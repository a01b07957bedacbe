// Writes the descriptions of code hosts as OpenAPI 3.0 documents in JSON, into the folder of the first argument: those of
// Gitea and Forgejo from Swagger 2.0 documents in this folder, and those of Bitbucket from declarations that
// openapi-typescript made of Atlassian's documents.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import swagger2openapi from "swagger2openapi";
import ts from "typescript";

const folder = process.argv[2];
const write = (name, document) => writeFileSync(join(folder, `${name}.json`), JSON.stringify(document));

for (const name of ["gitea", "forgejo"]) {
  const swagger = JSON.parse(readFileSync(join(folder, `${name}.swagger.json`), "utf8"));
  const converted = await swagger2openapi.convertObj(swagger, { patch: true, warnOnly: true });
  write(name, converted.openapi);
}
const declarations = (part) =>
  new URL(`node_modules/@coderabbitai/bitbucket/dist/${part}/openapi/openapi-typescript.d.ts`, import.meta.url);
// Atlassian declares that each object needs a `type`, although its own examples of requests have none.
write("bitbucket", new Declarations(declarations("cloud"), ["type"]).document());
write("bitbucket-data-center", new Declarations(declarations("server")).document());

/** Declarations by openapi-typescript. The properties with the names in `optional` are never required. */
function Declarations(file, optional = []) {
  const source = ts.createSourceFile("described.d.ts", readFileSync(file, "utf8"), ts.ScriptTarget.Latest, true);
  const found = (name) => {
    const declared = source.statements.find((one) => ts.isInterfaceDeclaration(one) && one.name.text === name);
    if (!declared) throw new Error(`${file.pathname}: the interface ${name} is missing`);
    return declared;
  };
  /** The schemas without some of their properties, to which derived schemas refer. */
  const reduced = new Map();
  const schemas = {};

  this.document = () => {
    const components = members(found("components"));
    for (const [name, member] of members(type(components, "schemas"))) schemas[name] = schema(member.type);
    const paths = {};
    for (const [path, member] of members(found("paths"))) paths[path] = methods(member.type);
    return { openapi: "3.0.3", paths, components: { schemas, requestBodies: requestBodies(components) } };
  };

  /** The members of an interface or of an object type, by name. Those of the type `never` are absent. */
  function members(node) {
    const named = node.members.filter((one) => ts.isPropertySignature(one) && one.type.kind !== ts.SyntaxKind.NeverKeyword);
    return new Map(named.map((one) => [one.name.text, one]));
  }

  function type(of, name) {
    return of.get(name)?.type;
  }

  function requestBodies(components) {
    const bodies = type(components, "requestBodies");
    if (!bodies || !ts.isTypeLiteralNode(bodies)) return {};
    return Object.fromEntries([...members(bodies)].map(([name, member]) => [name, body(member)]));
  }

  function methods(path) {
    const described = {};
    for (const [method, member] of members(path)) {
      if (method !== "parameters") described[method] = operation(method, member.type);
    }
    return described;
  }

  function operation(method, node) {
    const id = ts.isIndexedAccessTypeNode(node) ? node.indexType.literal.text : undefined;
    const declared = members(id ? type(members(found("operations")), id) : node);
    const parameters = [];
    for (const [place, member] of members(type(declared, "parameters"))) {
      for (const [name, one] of members(member.type)) {
        parameters.push({ in: place, name, required: !one.questionToken, schema: property(one) });
      }
    }
    const requestBody = declared.has("requestBody") ? body(declared.get("requestBody")) : undefined;
    const responses = {};
    for (const [status, member] of members(type(declared, "responses"))) {
      if (ts.isTypeLiteralNode(member.type)) responses[status] = { content: content(type(members(member.type), "content")) };
    }
    return { operationId: id, parameters, requestBody, responses };
  }

  function body(member) {
    if (ts.isIndexedAccessTypeNode(member.type)) return { $ref: reference(member.type) };
    return { required: !member.questionToken, content: content(type(members(member.type), "content")) };
  }

  function content(node) {
    if (!node) return {};
    return Object.fromEntries([...members(node)].map(([name, member]) => [name, { schema: schema(member.type) }]));
  }

  /** The reference of a type such as `components["schemas"]["user"]`. */
  function reference(node) {
    const part = node.objectType.indexType.literal.text;
    return `#/components/${part}/${escaped(node.indexType.literal.text)}`;
  }

  function escaped(name) {
    return name.replaceAll("~", "~0").replaceAll("/", "~1");
  }

  /** The schema of a property. Its comment has the format that its type lacks. */
  function property(member) {
    const described = schema(member.type);
    const comments = ts.getJSDocCommentsAndTags(member).map((one) => one.getText()).join("\n");
    if (described.type === "number" && /Format: int(32|64)/.test(comments)) return { ...described, type: "integer" };
    if (described.type === "string" && /Format: date-time/.test(comments)) return { ...described, format: "date-time" };
    return described;
  }

  function schema(node) {
    const kinds = ts.SyntaxKind;
    switch (node.kind) {
      case kinds.StringKeyword:
        return { type: "string" };
      case kinds.NumberKeyword:
        return { type: "number" };
      case kinds.BooleanKeyword:
        return { type: "boolean" };
      case kinds.UnknownKeyword:
        return {};
      case kinds.ParenthesizedType:
      case kinds.TypeOperator: // readonly
        return schema(node.type);
      case kinds.ArrayType:
        return { type: "array", items: schema(node.elementType) };
      case kinds.TypeLiteral:
        return object(node);
      case kinds.LiteralType:
        return literal(node.literal);
      case kinds.UnionType:
        return union(node.types);
      case kinds.IntersectionType:
        return intersection(node.types);
      case kinds.IndexedAccessType:
        return { $ref: reference(node) };
      case kinds.TypeReference:
        return generic(node);
      default:
        throw new Error(`${file.pathname}: no schema for ${kinds[node.kind]}: ${node.getText().slice(0, 200)}`);
    }
  }

  function object(node) {
    const properties = {};
    const required = [];
    for (const [name, member] of members(node)) {
      properties[name] = property(member);
      if (!member.questionToken && !optional.includes(name)) required.push(name);
    }
    const values = node.members.find(ts.isIndexSignatureDeclaration);
    if (Object.keys(properties).length > 0) return { type: "object", properties, required };
    return { type: "object", additionalProperties: values ? schema(values.type) : true };
  }

  function literal(node) {
    if (node.kind === ts.SyntaxKind.NullKeyword) return { nullable: true, enum: [] };
    if (ts.isStringLiteral(node)) return { type: "string", enum: [node.text] };
    return { enum: [JSON.parse(node.getText())] };
  }

  function union(nodes) {
    const isNull = (node) => ts.isLiteralTypeNode(node) && node.literal.kind === ts.SyntaxKind.NullKeyword;
    const alternatives = nodes.filter((node) => !isNull(node)).map(schema);
    const nullable = nodes.some(isNull) ? { nullable: true } : {};
    if (alternatives.length === 1) return { ...alternatives[0], ...nullable };
    if (alternatives.every((one) => one.type === "string" && one.enum)) {
      return { type: "string", enum: alternatives.flatMap((one) => one.enum), ...nullable };
    }
    return { anyOf: alternatives, ...nullable };
  }

  /** An object that may have other properties is open only if it declares none. */
  function intersection(nodes) {
    const parts = nodes.map(schema).flatMap((part) => part.allOf ?? [part]);
    const declared = parts.filter((part) => part.$ref || part.properties);
    if (declared.length === 0) return parts[0];
    return declared.length === 1 ? declared[0] : { allOf: declared };
  }

  function generic(node) {
    const [first, second] = node.typeArguments ?? [];
    switch (node.typeName.text) {
      case "Readonly":
        return schema(first);
      case "Record":
        return { type: "object", additionalProperties: second.kind === ts.SyntaxKind.NeverKeyword ? true : schema(second) };
      case "Omit":
        return without(schema(first), second.literal.text);
      default:
        throw new Error(`${file.pathname}: unknown type ${node.getText().slice(0, 200)}`);
    }
  }

  /** A schema without a property, which the derived schema declares instead; empty if it has no other. */
  function without(described, name) {
    const base = described.$ref.split("/").at(-1);
    const key = `${base}.without.${name}`;
    if (!reduced.has(key)) {
      const whole = schema(type(members(type(members(found("components")), "schemas")), base));
      const rest = reduce(whole, name);
      reduced.set(key, rest.properties || rest.allOf ? { $ref: `#/components/schemas/${escaped(key)}` } : {});
      schemas[key] = rest;
    }
    return reduced.get(key);
  }

  function reduce(described, name) {
    if (described.$ref) return described.$ref.endsWith(`.without.${name}`) ? described : without(described, name);
    const { properties, required, allOf, ...rest } = described;
    if (allOf) {
      const parts = allOf.map((part) => reduce(part, name)).filter((part) => part.$ref || part.properties);
      return parts.length === 0 ? {} : { ...rest, allOf: parts };
    }
    if (!properties) return described;
    const { [name]: _, ...others } = properties;
    if (Object.keys(others).length === 0) return {};
    return { ...rest, properties: others, required: required.filter((one) => one !== name) };
  }
}
